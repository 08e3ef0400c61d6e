#pragma once
// The facts of a schedule that are known before its whole program is generated: the rank of each stage,
// whether backward passes are split, and what ranks hold when their memory is fullest.

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

/// The microbatches and gradients that a rank holds when one of its actions starts.
struct HeldMoment {
  /// The microbatches between F and the end of their backward pass, for each stage of the rank.
  std::vector<std::int32_t> live;
  /// The live microbatches that have started I and have not ended W, for each stage of the rank.
  std::vector<std::int32_t> waiting;
  std::vector<bool> gradients;            ///< true if gradients are held, for each stage of the rank
  std::int32_t running = 0;               ///< the index of the running stage among the rank's stages
  ActionKind kind = ActionKind::forward;  ///< the kind of the action that starts
};

struct RankOutline {
  std::vector<std::int32_t> stages;  ///< the stages of the rank, ascending
  std::vector<HeldMoment> moments;   ///< the fullest moments of the rank by several measures
};

struct ScheduleOutline {
  std::vector<std::int32_t> rank_of_stage;
  bool splits_backward = false;
  bool overlaps_pairs = false;  ///< true if some F and B are an overlapped pair
  std::vector<RankOutline> ranks{};
  std::int32_t units = 0;  ///< the microbatches or slices of the outlined program
};

/// Returns the outline of a program of compute actions. SEND and RECV in its lists are ignored. Requires one
/// rank for each stage.
ScheduleOutline outline_of(const Program& program);

/// Returns the outline of a program of `microbatches` from the outline of a program with fewer microbatches.
/// If a rank held all of the fewer microbatches, it holds all `microbatches` in the result.
ScheduleOutline outline_of_whole(ScheduleOutline outline, std::int64_t microbatches);

/// Returns a lower bound on the peak bytes of a rank: the bytes at its fullest outlined moment, without
/// messages.
Bytes least_peak_bytes(const CostTable& costs, const RankOutline& rank);

/// Returns a number of microbatches, at most `microbatches`, with which a schedule of that many ranks already
/// reaches its fullest moments.
std::int32_t outlined_microbatches(std::int32_t stages, std::int32_t microbatches);

// Computes the time of one compute program for many tables of costs, without changing the order of its lists.

/// The compute actions of a program in an order in which each action follows all its inputs. The stages must
/// form a chain and have one rank each. SEND, RECV and collectives of the lists are ignored.
class OrderTimes {
 public:
  /// Returns nothing if ranks wait for each other for ever. Requires the lists of one iteration.
  static std::optional<OrderTimes> of(const Program& program);

  /// Returns the end of the last action. Each rank runs one action after another. A message starts when its
  /// data are ready and the previous message between the same two ranks has left. Engines compute the same
  /// time under default channels if launches cost nothing and microbatches are not sliced.
  Ns makespan_ns(const CostTable& costs, const UniformCluster& links) const;
  /// Returns the work of the busiest rank on one microbatch. A further microbatch makes a full pipeline
  /// longer by this time.
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
    std::int32_t channel = kNothing;  ///< the channel of the output; kNothing if it stays on its rank
    std::int32_t edge = 0;            ///< the edge of the output
    bool overlaps_next = false;
  };

  Leaf leaf_of(const Program& program, const Action& action, std::int32_t rank);
  /// Adds the actions of a group that the rank runs next, and marks their outputs as made. If an input is not
  /// made yet, returns false and adds nothing.
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
