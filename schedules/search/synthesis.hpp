#pragma once
// Orders under a memory limit, searched: rules whose constants are variables (order_rules.hpp), from several
// seeds, and moves on the best order at the end. Private to schedules/.

#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/search_effort.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// An order and what is known of it.
struct Synthesis {
  std::vector<std::vector<Action>> lists;
  Ns length_ns = 0;
  Ns bound_ns = 0;          ///< shortest_possible() (order_bound.hpp)
  std::int64_t passes = 0;  ///< that were made: less than asked for where the bound is met or time is over

  bool is_optimal() const { return length_ns <= bound_ns; }
};

/// The best order that `effort` finds, never longer than any of `known`, which must be runnable within
/// memory. Deterministic unless a budget of time ends it. Requires at least one of `known`.
Synthesis synthesize(const OrderCosts& costs, Objective objective, const SearchEffort& effort,
                     const std::vector<std::vector<std::vector<Action>>>& known);

/// `program`, whose lists can run and hold no STEP, with better lists where shape.effort finds some, and with
/// its STEPs. Without costs in `shape` the lists are left as they are.
Program searched(Program program, const OrderCosts& costs, const Shape& shape);

/// How long lists take that can run.
Ns length_of(const std::vector<std::vector<Action>>& lists, const OrderCosts& costs, Objective objective);

}  // namespace penstock
