#pragma once
// Searches for a short order under a memory limit. It searches over the constants of rules
// (order_builder.hpp), from several seeds. At the end, local moves improve the best order. Only schedules/
// includes this header.

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// The result of a search.
struct Synthesis {
  std::vector<std::vector<Action>> lists{};
  Ns length_ns = 0;
  /// A lower bound on the length of every order: shortest_possible().
  Ns bound_ns = 0;
  /// The number of passes in the search. It is smaller than the effort if the bound is reached or the time is
  /// over.
  std::int64_t passes = 0;

  bool is_optimal() const { return length_ns <= bound_ns; }
};

/// A length that is larger than the length of any order.
inline constexpr Ns kAnyLength = std::numeric_limits<Ns>::max() / 4;

/// A function that returns known orders within the memory limits of `costs`. Each order has a list for each
/// rank. The function may leave out orders longer than `longest`. If `longest` is kAnyLength, it returns at
/// least one order.
using KnownOrders =
    std::function<std::vector<std::vector<std::vector<Action>>>(const OrderCosts& costs, Ns longest)>;

/// How much of its memory limits a search uses.
enum class MemoryUse : std::uint8_t {
  least,        // the least memory that the shortest length needs
  up_to_limit,  // the memory of the first order that the search finds with this length
};

/// Returns the best order that the search finds with `effort`. It is never longer than any order of `known`.
/// Among equally short orders, the one with the lowest peak memory is best, and then the one with the
/// shortest makespan. The result is deterministic unless a time budget ends the search. Requires that `known`
/// has at least one order within the limits of `costs`.
Synthesis synthesize(const OrderCosts& costs, Objective objective, const SearchEffort& effort,
                     const KnownOrders& known, MemoryUse use = MemoryUse::least);

/// Returns `program` with the best order of synthesize() and with its STEPs. If `shape` has no costs, it uses
/// the best known order without a search.
Program searched(Program program, const OrderCosts& costs, const Shape& shape, const KnownOrders& known);

/// Returns `program` with its STEPs, and with shorter lists if the search of shape.effort finds any. If
/// `shape` has no costs, there is no search. Requires lists that can run and have no STEP.
Program searched(Program program, const OrderCosts& costs, const Shape& shape);

/// Returns the length of the lists. Requires lists that can run.
Ns length_of(const std::vector<std::vector<Action>>& lists, const OrderCosts& costs, Objective objective);

// Computes a lower bound on the length of orders.

/// Returns a lower bound on the length of every order of F, I and W that respects the memory limits in
/// `costs`. Requires that all ranks have equally many stages.
Ns shortest_possible(const OrderCosts& costs, Objective objective);

}  // namespace penstock
