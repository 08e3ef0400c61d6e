#pragma once
// Searches for a short order under a memory limit. It tries many values for the constants of the rules in
// order_builder.hpp, from several seeds. At the end, local moves improve the best order. follow_order.hpp
// is used instead if the order of forwards and backwards is given. Only schedules/ includes this header.

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// The order that a search has found, and facts about the search.
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

}  // namespace penstock
