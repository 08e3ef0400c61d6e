#pragma once
// Which part of the model each stage of a program holds. Decided once, by experiment.cpp, and handed on to
// all that price, name or generate stages.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"

namespace penstock {

/// The model's stages, each of which is one stage of the program or, in gradient buckets, several.
struct StageCut {
  std::int32_t stages = 1;              ///< of the model
  std::vector<std::int32_t> buckets{};  ///< by stage of the model, how many; empty: none is in buckets
  std::vector<std::int32_t> ends{};  ///< by stage of the program, the layers up to its end; empty: no layers

  friend bool operator==(const StageCut&, const StageCut&) = default;
};

/// Cuts `model` into `stages` stages, none of them in buckets. Errors: those of cut_layers().
tl::expected<StageCut, std::string> cut_model(const Model& model, const Partition& partition,
                                              std::int32_t stages);

// --- bucket cut ------------------------------------------------------------------------------------------

/// `whole`, a cut of the model without buckets, with its stages in buckets: `stated` is none, one number for
/// all stages, which a stage of fewer layers has as many of as layers, or one number a stage. A stage of
/// layers has each bucket's as even in time as they allow. Errors: a list of another length, stage edges of
/// the model beside buckets, those of cut_buckets().
tl::expected<StageCut, std::string> cut_into_buckets(const Model& model, const StageCut& whole,
                                                     const std::vector<std::int32_t>& stated);

}  // namespace penstock
