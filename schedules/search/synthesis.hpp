#pragma once
// Searches for a short order under a memory limit. It tries many values for the constants of the rules in
// order_builder.hpp, from several seeds. At the end, local moves improve the best order. order_follower.hpp
// is used instead if the order of forwards and backwards is given. Only schedules/ includes this header.

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/order_builder.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// The order that a search has found, with its length, a lower bound on the length, and the effort of the
/// search.
struct Synthesis {
  std::vector<std::vector<Action>> lists{};
  Ns length_ns = 0;
  /// A lower bound on the length of every order (see shortest_possible()).
  Ns bound_ns = 0;
  /// The number of passes that the search has made. It is smaller than the effort if the search has reached
  /// the bound or its time has run out.
  std::int64_t passes = 0;

  bool is_optimal() const { return length_ns <= bound_ns; }
};

/// A length that is larger than the length of any order.
inline constexpr Ns kAnyLength = std::numeric_limits<Ns>::max() / 4;

/// A function that returns known orders within the memory limits of `costs`. Each order consists of a list
/// for each rank. The function may leave out orders longer than `longest`. If `longest` is kAnyLength, it
/// returns at least one order.
using KnownOrders =
    std::function<std::vector<std::vector<std::vector<Action>>>(const OrderCosts& costs, Ns longest)>;

/// The memory, within the limits, that the result of a search may need.
enum class MemoryUse : std::uint8_t {
  least,        // the least memory that the shortest length needs
  up_to_limit,  // the memory of the first order that the search finds with this length
};

/// Returns the best order that the search finds with `effort`. It is never longer than any order of
/// `known`. Of equally short orders, it prefers the lowest peak memory, and then the shortest makespan. The
/// result is deterministic unless a time budget ends the search. Requires that `known` has at least one
/// order within the limits of `costs`.
Synthesis synthesize(const OrderCosts& costs, Objective objective, const SearchEffort& effort,
                     const KnownOrders& known, MemoryUse use = MemoryUse::least);

/// Returns `program` with the lists of the best order of synthesize() and with its STEPs. If `shape` has no
/// costs, takes the best order of `known` without a search.
Program searched(Program program, const OrderCosts& costs, const Shape& shape, const KnownOrders& known);

/// Returns `program` with its STEPs. Its lists become shorter if a search with shape.effort finds shorter
/// ones. If `shape` has no costs, there is no search. Requires lists that can run and have no STEP.
Program searched(Program program, const OrderCosts& costs, const Shape& shape);

/// Returns the length of the lists, measured by `objective`. Requires lists that can run.
Ns length_of(const std::vector<std::vector<Action>>& lists, const OrderCosts& costs, Objective objective);

// Computes a lower bound on the length of orders.

/// Returns a lower bound on the length of every order of F, I and W that respects the memory limits in
/// `costs`. The actions I and W compute the gradients of the input and of the weights. Requires that all
/// ranks have equally many stages.
Ns shortest_possible(const OrderCosts& costs, Objective objective);

// Chooses the rules (order_builder.hpp) from which a search starts, for the costs of a program. Only
// schedules/ includes this header.

/// Returns rules that long searches have found (starting_rules.cpp), adapted to `costs`. The rules for the
/// nearest memory limits come first, in several variants. Rules for a smaller memory limit are also tried
/// with that smaller limit. A search with a larger limit therefore has all starting rules of a smaller
/// limit.
std::vector<OrderRules> starting_rules(const OrderCosts& costs);

/// Returns rules without caps on microbatches and leads, which try to reach the length `bound`. No order
/// can be shorter than `bound`. In an order of this length, the busiest rank is idle for `bound` minus its
/// work. The rules let each rank pause for about this time. If this time is 0, the result is empty. With
/// 1.5 to 2 times the memory of 1F1B, these rules often reach the bound.
std::vector<OrderRules> rules_aimed_at(Ns bound, const OrderCosts& costs);

// Computes the automatic zero-bubble schedule under a memory limit. ZB-1p and ZB-2p use it with two different
// limits. The search of `synthesized` takes longer and may find a shorter order. Only schedules/ includes
// this header.

/// Returns the lists of the best variant of the zero-bubble paper's heuristic. In this variant, the longest
/// span of a rank is smallest. Returns nothing if all variants are longer than `longest`. Requires one stage
/// on each rank, and memory for one microbatch.
std::optional<std::vector<std::vector<Action>>> zero_bubble_order(const OrderCosts& costs, Ns longest);

/// Returns the best variant of the zero-bubble paper's heuristic, or a shorter order from a search. Uses
/// shape.costs, shape.transfer_ns and shape.memory_limit. Without a memory limit, a rank may store
/// `activations` activations of its stage. The errors are the same as for order_costs().
Generated automatic_zero_bubble(std::string schedule, const Shape& shape, std::int64_t activations);

// Searches for good rules for order_builder.hpp, with random numbers from one seed. synthesis.cpp runs
// several of these searches. Only schedules/ includes this header.

/// A sequence of random draws that depends only on the seed.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : key_(mixed(seed)) {}

  double between(double least, double most) { return least + (most - least) * even_draw(key_, count_++); }
  std::int32_t from_to(std::int32_t least, std::int32_t most) {
    return least + static_cast<std::int32_t>(between(0, most - least + 1));
  }
  bool happens(double share) { return between(0, 1) < share; }

 private:
  std::uint64_t key_;
  std::uint64_t count_ = 0;
};

/// The quantities of a search problem that determine in which ranges the constants of rules are drawn.
struct RuleScale {
  std::int32_t ranks = 1;
  std::int32_t chunks = 1;
  /// The number of activations of one stage that fit into the memory of a rank.
  double units = 1;
  /// The idle time in ns of a rank in the best order so far, or an estimate of it.
  double idle_ns = 1;
};

/// Returns rules in which all constants are drawn at random. Constants that matter only for several chunks
/// are drawn only if a rank has several chunks.
OrderRules fresh_rules(Draws& draws, const RuleScale& scale);
/// Returns `rules` with one or two of the constants changed at random.
OrderRules changed_rules(OrderRules rules, Draws& draws, const RuleScale& scale);

/// A set of rules, and the length of the order that they give.
struct RatedRules {
  OrderRules rules{};
  Ns length = kUnknownLength;

  static constexpr Ns kUnknownLength = std::numeric_limits<Ns>::max() / 4;
};

/// A search for good rules that starts from one seed.
class RuleSearch {
 public:
  /// Prepares a search, and stores no reference to its arguments. `bound` is a lower bound on the length of
  /// every order. The search ends when it finds an order of this length.
  RuleSearch(const OrderCosts& costs, Objective objective, std::uint64_t seed, Ns bound);

  /// Continues the search until it has placed `actions` more actions.
  void go_on(std::int64_t actions);
  void try_rules(const OrderRules& rules);
  const RatedRules& best() const { return best_; }
  bool is_optimal() const { return best_.length <= bound_; }
  std::int64_t placed_actions() const { return whole_.placed_actions() + part_.placed_actions(); }
  std::int64_t actions_of_a_pass() const { return whole_.actions(); }
  /// Returns the order of the best rules. Requires that the search has found an order.
  std::vector<std::vector<Action>> lists();

 private:
  OrderRules next_rules();
  bool is_promising(const OrderRules& rules);

  RuleScale scale_;
  Ns busiest_ = 0;
  Ns bound_ = 0;
  Draws draws_;
  OrderBuilder whole_;
  OrderBuilder part_;  // builds fewer microbatches, which already show warm-up, steady state and drain
  bool has_part_ = false;
  RatedRules best_;
  RatedRules best_of_part_;
};

}  // namespace penstock
