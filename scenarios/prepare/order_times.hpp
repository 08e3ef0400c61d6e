#pragma once
// How long a compute program takes for one table of costs after another, from its lists as they stand.

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

/// The actions of a program whose stages are a chain of one rank each, in an order in which everything comes
/// after what it waits for. SEND, RECV and collectives of the lists are passed over.
class OrderTimes {
 public:
  /// Returns nothing where ranks wait for each other for ever. `program` has the lists of one iteration.
  static std::optional<OrderTimes> of(const Program& program);

  /// Returns when the last action of the lists has ended. Each rank does one action after the other, each
  /// message starts when it is made and the one before it, from the same rank to the same rank, has left.
  /// That is what engines say under default channels, where hosts launch at no cost and microbatches are not
  /// sliced.
  Ns makespan_ns(const CostTable& costs, const UniformCluster& links) const;
  /// Returns the work on one microbatch of the rank that has most of it: by how much longer lists take that
  /// have one more.
  double busiest_ns_per_microbatch(const CostTable& costs) const;

  std::size_t actions() const { return leaves_.size(); }
  std::int32_t microbatches() const { return microbatches_; }

 private:
  static constexpr std::int32_t kNothing = -1;

  /// One compute action. Inputs and outputs are numbers of activations and gradients.
  struct Leaf {
    std::int32_t rank = 0;
    std::int32_t cost = 0;  ///< stage and kind
    std::int32_t input = kNothing;
    std::int32_t output = kNothing;
    std::int32_t channel = kNothing;  ///< of the output; nothing where it stays on its rank
    std::int32_t edge = 0;            ///< of the output
    bool overlaps_next = false;
  };

  Leaf leaf_of(const Program& program, const Action& action, std::int32_t rank);
  /// Adds the leaves of a group that the rank runs next, and notes what they make. Returns false, and adds
  /// nothing, where one of them waits for something that is not made yet.
  bool take(const Program& program, std::span<const Action> group, std::int32_t rank,
            std::vector<bool>& is_made);
  /// Sets the channel of its output, which goes to the stage `consumer`.
  void set_channel(Leaf& leaf, std::int32_t consumer);

  std::vector<Leaf> leaves_;
  std::vector<std::int64_t> counts_;  ///< by stage and kind: actions of that kind
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> channels_;  ///< by sender and receiver
  std::vector<std::int32_t> rank_of_stage_;
  std::size_t ranks_ = 0;
  std::size_t outputs_ = 0;
  std::int32_t microbatches_ = 1;
  std::int32_t slices_ = 1;
};

}  // namespace penstock
