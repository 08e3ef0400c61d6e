#pragma once
// What is said of an experiment's costs where they are not the model's own figures. Used by experiment.cpp.

#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/scaling.hpp"

namespace penstock {

/// Adds from which size of a microbatch the figures were scaled.
std::vector<std::string> with_scaling_note(std::vector<std::string> notes, const Model& model,
                                           const Scaling& samples);

/// Adds where lists of one figure a microbatch are shorter or longer than M, and what a program takes then.
std::vector<std::string> with_microbatch_notes(std::vector<std::string> notes, const Model& model,
                                               std::int32_t microbatches);

}  // namespace penstock
