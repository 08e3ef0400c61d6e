#pragma once
// The cut, which is the first step of preparation. A scenario that states copies of a pipeline keeps one of
// them. The layers of its model are cut into the stages of the program.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

struct OneCopy {
  Scenario scenario;  ///< its batch is still the batch of all copies
  /// The number of copies that share the batch. Absent if one program contains all copies.
  std::optional<std::int32_t> copies{};
  std::optional<Workload> work{};  ///< the workload on named devices, with all degrees set
};

/// Returns one copy of the pipeline. Errors: the errors of device_workload() and with_planned_partition();
/// copies that the schedule makes itself, if the model has fitted costs.
tl::expected<OneCopy, std::string> one_copy(const Scenario& stated);

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
