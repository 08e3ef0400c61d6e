#pragma once
// Stages of a model, cut once more into the buckets in which their gradients are reduced.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/stage_cut.hpp"

namespace penstock {

/// `whole`, a cut of the model without buckets, with its stages in buckets: `stated` is none, one number for
/// all stages, which a stage of fewer layers has as many of as layers, or one number a stage. A stage of
/// layers has each bucket's as even in time as they allow. Errors: a list of another length, stage edges of
/// the model beside buckets, those of cut_buckets().
tl::expected<StageCut, std::string> cut_into_buckets(const Model& model, const StageCut& whole,
                                                     const std::vector<std::int32_t>& stated);

}  // namespace penstock
