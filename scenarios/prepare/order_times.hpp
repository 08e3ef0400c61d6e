#pragma once
// Computes the time of one compute program for many tables of costs, without changing the order of its lists.

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
