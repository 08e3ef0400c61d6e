#pragma once
// The outline of a schedule, which is known before its whole program is generated. It contains the rank of
// each stage, and whether backward passes are split. It also says what each rank stores when its memory is
// fullest.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "scenarios/prepare/prepared_program.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "topology/presets.hpp"

namespace penstock {

/// The activations and gradients that a rank stores at the moment when one of its actions starts.
struct HeldMoment {
  /// The number of live microbatches in each stage of the rank. A microbatch is live from its F to the end
  /// of its backward pass.
  std::vector<std::int32_t> live;
  /// The number of live microbatches in each stage of the rank that have started the action I and have not
  /// ended the action W.
  std::vector<std::int32_t> waiting;
  std::vector<bool> gradients;            ///< for each stage of the rank, true if its gradients are stored
  std::int32_t running = 0;               ///< the index of the running stage among the rank's stages
  ActionKind kind = ActionKind::forward;  ///< the kind of the action that starts
};

struct RankOutline {
  std::vector<std::int32_t> stages;  ///< the stages of the rank, ascending
  std::vector<std::int32_t> units;   ///< for each stage of the rank, the microbatches or slices that it runs
  std::vector<HeldMoment> moments;   ///< the moments in which the rank stores most, by several measures
};

struct ScheduleOutline {
  /// For a stage on several ranks, the rank of the first microbatch.
  std::vector<std::int32_t> rank_of_stage;
  bool splits_backward = false;
  bool overlaps_pairs = false;  ///< true if some F and B are an overlapped pair
  bool recomputes = false;      ///< true if some R is an action of its own
  std::vector<RankOutline> ranks{};
  /// The stages after the stages of layers, if the program divides the output layer.
  ExtraStages extra = ExtraStages::none;
  std::vector<StageEdge> edges{};  ///< the edges between stages; empty if the stages form a chain
  std::int32_t units = 0;          ///< the number of microbatches or slices of the outlined program
};

/// Returns the outline of a program of compute actions. SEND and RECV in its lists are ignored. A stage with
/// replicas is a stage of each of its ranks.
ScheduleOutline outline_of(const Program& program);

/// Returns the outline for a program of `microbatches` microbatches. It is computed from the outline of a
/// program with fewer microbatches. If a rank stores all microbatches that it runs in the shorter program, it
/// is assumed to store all its part of `microbatches`.
ScheduleOutline outline_of_whole(ScheduleOutline outline, std::int64_t microbatches);

/// Returns a lower bound on a rank's peak memory in bytes. It is the most that the rank stores at any
/// moment of the outline, without messages.
Bytes least_peak_bytes(const CostTable& costs, const RankOutline& rank);

/// Like the other least_peak_bytes(), but also counts the message that the running action has received. The
/// rank stores it until the action ends. The stages must form a chain and have one rank each, and `rank` must
/// be a rank of the outline.
Bytes least_peak_bytes(const CostTable& costs, const ScheduleOutline& outline, const RankOutline& rank);

/// Returns a number of microbatches with which the outline shows the moments of fullest memory in a
/// schedule of `stages` ranks. The result is at most `microbatches`. `further` is the number of microbatches
/// that a rank may store in addition to `stages`.
std::int32_t outlined_microbatches(std::int32_t stages, std::int32_t microbatches, std::int32_t further = 0);

// Computes the time of one compute program for many tables of costs, without changing the order of its lists.

/// The compute actions of a program, in an order in which each action follows all actions that it depends
/// on. The stages must form a chain. SEND, RECV and collectives in the lists are ignored.
class OrderTimes {
 public:
  /// Returns the order of the program's actions. Returns nothing if the program deadlocks. Requires the
  /// lists of one iteration.
  static std::optional<OrderTimes> of(const Program& program);

  /// Returns the end of the last action in nanoseconds. Each rank runs one action after another. A message
  /// starts when its data are ready and the sender has finished its previous message to the same receiver.
  /// Engines compute the same time under default channels if launches take no time and microbatches are not
  /// sliced.
  Ns makespan_ns(const CostTable& costs, const UniformCluster& links) const;
  /// Returns the nanoseconds that the busiest rank computes for one microbatch. In a full pipeline, each
  /// further microbatch makes the run longer by this time.
  double busiest_ns_per_microbatch(const CostTable& costs) const;

  std::size_t actions() const { return leaves_.size(); }
  std::int32_t microbatches() const { return microbatches_; }

 private:
  static constexpr std::int32_t kNothing = -1;

  /// One compute action. `input` and `output` are the numbers of the activation or gradient that it reads
  /// and writes.
  struct Leaf {
    std::int32_t rank = 0;
    std::int32_t cost = 0;  ///< the index of the stage and kind in the table of durations
    std::int32_t input = kNothing;
    std::int32_t output = kNothing;
    std::int32_t channel = kNothing;  ///< the channel of the output; kNothing if the output stays on its rank
    std::int32_t edge = 0;            ///< the edge of the output
    bool overlaps_next = false;
  };

  Leaf leaf_of(const Program& program, const Action& action, std::int32_t rank);
  /// Appends the next group of the rank's actions to the order, and marks their outputs as available in
  /// `is_made`. If an input is not available yet, returns false and changes nothing.
  bool take(const Program& program, std::span<const Action> group, std::int32_t rank,
            std::vector<bool>& is_made);
  /// Sets the channel on which the action's output goes to the rank `consumer`.
  void set_channel(Leaf& leaf, std::int32_t consumer);

  std::vector<Leaf> leaves_;
  /// The number of actions by rank and Leaf::cost.
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> counts_;
  /// The channel by sender and receiver.
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> channels_;
  std::size_t ranks_ = 0;
  std::size_t outputs_ = 0;
  std::int32_t microbatches_ = 1;
  std::int32_t slices_ = 1;
};

// Divides the layers of a model among its stages, so that ranks have nearly equal work. `layer_split:
// balanced` uses it.

/// The input for dividing the layers of one pipeline copy among its stages. The objects to which it refers
/// must outlive it.
struct SplitTask {
  const Workload& work;  ///< the workload with all degrees and the microbatch size set
  const KernelTables& kernels;
  /// The times and bytes of the layers on each kind of device (layer_prices_of_kinds()).
  std::span<const LayerPrices> prices;
  const ScheduleOutline& outline;
  std::int64_t microbatches = 1;  ///< the number of microbatches of one copy
};

/// Returns the number of layers of each stage. All ranks get nearly the same work for a microbatch. If
/// possible, the layers of each rank also fit into the memory of its devices. Requires has_layers_for() for
/// the outline's stages.
std::vector<std::int64_t> level_split(const SplitTask& task);

/// Like level_split(), but ignores memory: balances only the times of the ranks.
std::vector<std::int64_t> level_times_split(const SplitTask& task);

/// Returns the same result as level_split(), but starts from a given split. `level` is a split that balances
/// only times, and `level_costs` are the costs of its stages. Returns `level` if it fits into memory, or if
/// no split that fits is found.
std::vector<std::int64_t> fitted_split(const SplitTask& task, std::vector<std::int64_t> level,
                                       const CostTable& level_costs);

/// Returns the number of layers of each stage for the shortest time that was found. The search starts from
/// level_split() and from the splits of other rules. It moves one layer at a time as long as the time becomes
/// shorter. It is deterministic and tries a limited number of splits. `placed` must be
/// placed_stages(schedule), possibly with loops instead of lists. Requires has_layers_for() for its stages.
std::vector<std::int64_t> balanced_split(const Workload& work, const KernelTables& kernels,
                                         const StatedSchedule& schedule, const Program& placed);

}  // namespace penstock
