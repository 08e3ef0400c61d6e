#pragma once
// Search for orders under a memory limit: over rules whose constants are variables (order_rules.hpp), from
// several seeds, with local moves on the best order at the end. Only schedules/ includes this header.

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

/// The result of a search.
struct Synthesis {
  std::vector<std::vector<Action>> lists{};
  Ns length_ns = 0;
  /// The length that no order beats: shortest_possible() (order_bound.hpp).
  Ns bound_ns = 0;
  /// The passes made. They are fewer than requested if the bound is met or the time is over.
  std::int64_t passes = 0;

  bool is_optimal() const { return length_ns <= bound_ns; }
};

/// A length that is longer than any order.
inline constexpr Ns kAnyLength = std::numeric_limits<Ns>::max() / 4;

/// A function that returns known orders for `costs`, each with a list for each rank, within the memory
/// limits. It may omit orders longer than `longest`. With kAnyLength it returns at least one.
using KnownOrders =
    std::function<std::vector<std::vector<std::vector<Action>>>(const OrderCosts& costs, Ns longest)>;

/// The part of its memory limits that a search uses.
enum class MemoryUse : std::uint8_t {
  least,        // as little as the shortest length needs
  up_to_limit,  // whatever the first order of that length needs
};

/// Returns the best order for `effort`, which is never longer than any of `known`. Among equally short orders
/// the one whose fullest rank holds least memory is taken, and among these the one with the least makespan.
/// The result is deterministic unless a time budget ends the search. Requires at least one known order under
/// the limits of `costs`.
Synthesis synthesize(const OrderCosts& costs, Objective objective, const SearchEffort& effort,
                     const KnownOrders& known, MemoryUse use = MemoryUse::least);

/// Returns `program` with the best order of synthesize() and its STEPs. If `shape` has no costs, it is the
/// best of the known orders.
Program searched(Program program, const OrderCosts& costs, const Shape& shape, const KnownOrders& known);

/// Returns `program` with shorter lists if shape.effort finds some, and with its STEPs. If `shape` has no
/// costs, the lists stay unchanged. Requires lists that can run and hold no STEP.
Program searched(Program program, const OrderCosts& costs, const Shape& shape);

/// Returns the length of lists that can run.
Ns length_of(const std::vector<std::vector<Action>>& lists, const OrderCosts& costs, Objective objective);

}  // namespace penstock
