#pragma once
// The part of the model that each stage of a program holds. experiment.cpp decides it once for all code that
// prices, names or generates stages.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"

namespace penstock {

/// The stages of the model. Each is one stage of the program, or several if it has gradient buckets.
struct StageCut {
  std::int32_t stages = 1;  ///< the number of stages of the model
  /// The number of buckets of each model stage. Empty if no stage has buckets.
  std::vector<std::int32_t> buckets{};
  /// The number of layers up to the end of each program stage. Empty for a model without layers.
  std::vector<std::int32_t> ends{};

  friend bool operator==(const StageCut&, const StageCut&) = default;
};

/// Returns a cut of `model` into `stages` stages without buckets. Errors: the errors of cut_layers().
tl::expected<StageCut, std::string> cut_model(const Model& model, const Partition& partition,
                                              std::int32_t stages);

// --- bucket cut ------------------------------------------------------------------------------------------

/// Returns the cut `whole` with its stages divided into buckets. `stated` is empty, one number for all
/// stages, or one number for each stage. A single number is reduced for stages that have fewer layers. The
/// buckets of a stage are as even in time as its layers allow. Errors: a list of another length, stage edges
/// of the model together with buckets, and the errors of cut_buckets().
tl::expected<StageCut, std::string> cut_into_buckets(const Model& model, const StageCut& whole,
                                                     const std::vector<std::int32_t>& stated);

}  // namespace penstock
