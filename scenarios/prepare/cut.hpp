#pragma once
// The first step of preparation. If a scenario states several copies of a pipeline, this step prepares only
// one copy. It then cuts the layers of the model into the stages of the program.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

struct OneCopy {
  Scenario scenario;  ///< the scenario of one copy, but with the batch of all copies
  /// The number of pipeline copies that share the batch. Absent if one program contains all copies.
  std::optional<std::int32_t> copies{};
  std::optional<Workload> work{};  ///< the workload on named devices, with all degrees set
};

/// Returns the scenario reduced to one copy of the pipeline. Returns an error if device_workload() or
/// with_planned_partition() does. Also returns an error if the model has fitted costs and the schedule itself
/// makes copies.
tl::expected<OneCopy, std::string> one_copy(const Scenario& stated);

/// The cut of a model into stages of the program. A model stage with gradient buckets becomes several
/// program stages, one for each bucket. Any other model stage becomes one program stage.
struct StageCut {
  std::int32_t stages = 1;  ///< the number of stages of the model
  /// The number of buckets of each model stage. Empty if no stage has buckets.
  std::vector<std::int32_t> buckets{};
  /// The number of layers up to the end of each program stage. Empty for a model without layers.
  std::vector<std::int32_t> ends{};
  /// The slowness of each program stage: the factor by which its layers take longer than stated. Empty if
  /// no stage is slower.
  std::vector<double> slowness{};

  friend bool operator==(const StageCut&, const StageCut&) = default;
};

/// Returns the slowness of each stage's device (LayerGraph::device_slowness). If a stage has replicas, the
/// slowest of their devices counts. Returns an empty list if the model states times that hold for all
/// devices.
std::vector<double> slowness_of_stages(const Model& model, const Program& placed);

/// Returns a cut of `model` into `stages` stages without buckets. `slowness` is the result of
/// slowness_of_stages(). The errors are those of cut_layers().
tl::expected<StageCut, std::string> cut_model(const Model& model, const Partition& partition,
                                              std::int32_t stages, std::vector<double> slowness);

/// Assigns kinds of devices to the ranks of a workload, the first kind to the first ranks. A rank and its
/// copies get devices of one kind. Replaces `work.device` and `work.later_devices`. Does nothing if `kinds`
/// is empty. Requires a workload with all degrees and its number of ranks. Returns an error message if the
/// devices of a kind do not fill whole ranks, or if the placement order would mix kinds.
std::optional<std::string> place_kinds(Workload& work, std::span<const DeviceKind> kinds);

// --- bucket cut ------------------------------------------------------------------------------------------

/// Returns the cut `whole` with its stages divided into gradient buckets. `stated` has the number of buckets:
/// one for all stages, or one for each stage. If it is empty, no stage is divided. If one number holds for
/// all stages, a stage with fewer layers gets one bucket for each layer. The buckets of a stage are as even
/// in time as its layers allow. Returns an error if a list has another length, if a model with stated edges
/// has buckets, or if cut_buckets() fails.
tl::expected<StageCut, std::string> cut_into_buckets(const Model& model, const StageCut& whole,
                                                     const std::vector<std::int32_t>& stated);

}  // namespace penstock
