#pragma once
// The outline of a schedule, which is known before its whole program is generated. It contains the rank of
// each stage, whether backward passes are split, and what each rank stores when its memory is fullest.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "topology/presets.hpp"

namespace penstock {

/// The microbatches and gradients that a rank stores when one of its actions starts.
struct HeldMoment {
  /// The microbatches between F and the end of their backward pass, for each stage of the rank.
  std::vector<std::int32_t> live;
  /// The live microbatches that have started I and have not ended W, for each stage of the rank.
  std::vector<std::int32_t> waiting;
  std::vector<bool> gradients;            ///< for each stage of the rank, true if its gradients are stored
  std::int32_t running = 0;               ///< the index of the running stage among the rank's stages
  ActionKind kind = ActionKind::forward;  ///< the kind of the action that starts
};

struct RankOutline {
  std::vector<std::int32_t> stages;  ///< the stages of the rank, ascending
  std::vector<HeldMoment> moments;   ///< the moments in which the rank stores most, by several measures
};

struct ScheduleOutline {
  std::vector<std::int32_t> rank_of_stage;
  bool splits_backward = false;
  bool overlaps_pairs = false;  ///< true if some F and B are an overlapped pair
  bool recomputes = false;      ///< true if some R is an action of its own
  std::vector<RankOutline> ranks{};
  std::int32_t units = 0;  ///< the number of microbatches or slices of the outlined program
};

/// Returns the outline of a program of compute actions. SEND and RECV in its lists are ignored. Requires one
/// rank for each stage.
ScheduleOutline outline_of(const Program& program);

/// Returns the outline for `microbatches` microbatches, computed from the outline of a program with fewer. If
/// a rank stores all microbatches of the shorter program, it stores all `microbatches` in the result.
ScheduleOutline outline_of_whole(ScheduleOutline outline, std::int64_t microbatches);

/// Returns a lower bound on the peak bytes of a rank. It is the largest number of bytes at any outlined
/// moment, without messages.
Bytes least_peak_bytes(const CostTable& costs, const RankOutline& rank);

/// Like the other least_peak_bytes(), but also counts the message that the running action has received. The
/// rank stores it until the action ends. The stages must form a chain, and `rank` must be a rank of the
/// outline.
Bytes least_peak_bytes(const CostTable& costs, const ScheduleOutline& outline, const RankOutline& rank);

/// Returns a number of microbatches that is enough for the fullest moments of a schedule with `stages` ranks.
/// The result is at most `microbatches`.
std::int32_t outlined_microbatches(std::int32_t stages, std::int32_t microbatches);

// Computes the time of one compute program for many tables of costs, without changing the order of its lists.

/// The compute actions of a program in an order in which each action follows all its inputs. The stages must
/// form a chain and have one rank each. SEND, RECV and collectives of the lists are ignored.
class OrderTimes {
 public:
  /// Returns the order of the program's actions, or nothing if ranks wait for each other for ever. Requires
  /// the lists of one iteration.
  static std::optional<OrderTimes> of(const Program& program);

  /// Returns the end of the last action in nanoseconds. Each rank runs one action after another. A message
  /// starts when its data are ready and the sender has finished its previous message to the same receiver.
  /// Engines compute the same time under default channels if launches take no time and microbatches are not
  /// sliced.
  Ns makespan_ns(const CostTable& costs, const UniformCluster& links) const;
  /// Returns the time that the busiest rank computes for one microbatch. Each further microbatch makes a run
  /// with a full pipeline longer by this time.
  double busiest_ns_per_microbatch(const CostTable& costs) const;

  std::size_t actions() const { return leaves_.size(); }
  std::int32_t microbatches() const { return microbatches_; }

 private:
  static constexpr std::int32_t kNothing = -1;

  /// One compute action. `input` and `output` are numbers of activations or gradients.
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
  /// Adds the next group of actions of the rank to the order, and marks their outputs as available. If an
  /// input is not available yet, returns false and adds nothing.
  bool take(const Program& program, std::span<const Action> group, std::int32_t rank,
            std::vector<bool>& is_made);
  /// Sets the channel of the action's output, which goes to the stage `consumer`.
  void set_channel(Leaf& leaf, std::int32_t consumer);

  std::vector<Leaf> leaves_;
  std::vector<std::int64_t> counts_;  ///< the number of actions by stage and kind
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t>
      channels_;  ///< the channel by sender and receiver
  std::vector<std::int32_t> rank_of_stage_;
  std::size_t ranks_ = 0;
  std::size_t outputs_ = 0;
  std::int32_t microbatches_ = 1;
  std::int32_t slices_ = 1;
};

}  // namespace penstock
