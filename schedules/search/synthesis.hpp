#pragma once
// Orders under a memory limit, searched: rules whose constants are variables (order_rules.hpp), from several
// seeds, and moves on the best order at the end. Private to schedules/.

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/search_effort.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// An order and what is known of it.
struct Synthesis {
  std::vector<std::vector<Action>> lists{};
  Ns length_ns = 0;
  Ns bound_ns = 0;          ///< shortest_possible() (order_bound.hpp)
  std::int64_t passes = 0;  ///< that were made: less than asked for where the bound is met or time is over

  bool is_optimal() const { return length_ns <= bound_ns; }
};

/// Longer than any order.
inline constexpr Ns kAnyLength = std::numeric_limits<Ns>::max() / 4;

/// Makes the orders that are known for `costs`, each a list a rank, which can run within its memory limits.
/// It may leave out what is longer than `longest`; with kAnyLength it makes at least one.
using KnownOrders =
    std::function<std::vector<std::vector<std::vector<Action>>>(const OrderCosts& costs, Ns longest)>;

/// How much of its memory limits a search uses.
enum class MemoryUse : std::uint8_t {
  least,        // as little as the shortest length needs
  up_to_limit,  // whatever the first order of that length needs
};

/// Finds the best order for `effort`, never longer than any of `known`: the shortest one, of equally short
/// ones the one whose fullest rank keeps least, of these the one with the least makespan. Deterministic
/// unless a budget of time ends it. Requires at least one known order under the limits of `costs`.
Synthesis synthesize(const OrderCosts& costs, Objective objective, const SearchEffort& effort,
                     const KnownOrders& known, MemoryUse use = MemoryUse::least);

/// Returns `program` with the best order that synthesize() finds, and with its STEPs. Without costs in
/// `shape` it is the best of the known orders.
Program searched(Program program, const OrderCosts& costs, const Shape& shape, const KnownOrders& known);

/// Returns `program`, whose lists can run and hold no STEP, with shorter lists where shape.effort finds some,
/// and with its STEPs. Without costs in `shape` the lists are left as they are.
Program searched(Program program, const OrderCosts& costs, const Shape& shape);

/// How long lists take that can run.
Ns length_of(const std::vector<std::vector<Action>>& lists, const OrderCosts& costs, Objective objective);

}  // namespace penstock
