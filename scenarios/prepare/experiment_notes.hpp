#pragma once
// What is said of an experiment's costs where they are not the model's own figures. Used by
// priced_experiment.cpp.

#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/scaling.hpp"

namespace penstock {

/// What a run's notes are made of, in their order.
struct NotesTerms {
  const std::vector<std::string>& of_scenario;
  const std::vector<std::string>& of_schedule;
  const Model& model;
  Scaling samples;
  std::int32_t microbatches = 1;
};

/// The scenario's notes; where lists of one figure a microbatch are shorter or longer than M, and what a
/// program takes then; the schedule's notes; from which size of a microbatch figures were scaled.
std::vector<std::string> experiment_notes(const NotesTerms& terms);

}  // namespace penstock
