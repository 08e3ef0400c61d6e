// Chooses rules from which a search starts. In an order that reaches the bound, the rank that determines the
// bound pauses only as long as it must. It pauses at the beginning, because its memory allows no more F
// before its first I arrives. With an idle budget of this length, the rank waits for the more urgent action
// and fills later gaps with W. A slightly smaller budget suits orders in which several ranks pause.
//
// Rows of the table are adapted to the costs. A cap increases with the number of later ranks, so it needs no
// change. The value of a single rank comes from the rank at the same relative position in the pipeline.
// Tested by synthesis_test.cpp.

#include "schedules/search/starting_rules.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/search/order_rules.hpp"
#include "schedules/search/starting_rule_table.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {
namespace {

/// How far a row's memory limit may be above or below the given limit. Rows are an eighth of 1F1B's memory
/// apart, so the next row above and the next two below are used.
constexpr double kAbove = 0.13;
constexpr double kBelow = 0.3;

/// The quantities to which the rows are adapted.
struct Fitting {
  std::size_t ranks = 1;
  std::int32_t chunks = 1;
  double limit = 0;       // divided by the memory of 1F1B, on the rank with least memory
  double microbatch = 0;  // work of the busiest rank on one microbatch, in ns
};

/// Returns the quantities for these costs. Ranks without activations do not count for the limit.
Fitting fitting_of(const OrderCosts& costs) {
  Fitting fitting{.ranks = costs.memory_limit.size()};
  fitting.chunks = static_cast<std::int32_t>(costs.stages.size() / fitting.ranks);
  const std::vector<MicrobatchShare> shares = microbatch_shares(costs);
  fitting.limit = std::numeric_limits<double>::max();
  for (std::size_t rank = 0; rank < fitting.ranks; ++rank) {
    fitting.microbatch = std::max(fitting.microbatch, static_cast<double>(shares[rank].work_ns));
    if (shares[rank].kept == 0) continue;
    const double microbatches =
        static_cast<double>(costs.memory_limit[rank]) / static_cast<double>(shares[rank].kept);
    fitting.limit = std::min(fitting.limit, microbatches / static_cast<double>(fitting.ranks));
  }
  return fitting;
}

/// Returns the values of single ranks for another number of ranks. Rank r gets the value of rank r x size /
/// ranks. An empty vector stays empty.
std::vector<std::int8_t> stretched(const std::vector<std::int8_t>& own, std::size_t ranks) {
  std::vector<std::int8_t> fitted;
  for (std::size_t rank = 0; rank < ranks && !own.empty(); ++rank)
    fitted.push_back(own[rank * own.size() / ranks]);
  return fitted;
}

OrderRules fitted(OrderRules rules, const Fitting& fitting) {
  rules.idle_budget *= fitting.microbatch * static_cast<double>(fitting.ranks);
  rules.idle_budget_per_rank *= fitting.microbatch;
  rules.more_in_flight = stretched(rules.more_in_flight, fitting.ranks);
  rules.more_lead = stretched(rules.more_lead, fitting.ranks);
  return rules;
}

}  // namespace

std::vector<OrderRules> rules_aimed_at(Ns bound, const OrderCosts& costs) {
  const auto pause = static_cast<double>(bound - busiest_work_ns(costs));
  std::vector<OrderRules> starts;
  if (pause <= 0) return starts;
  // The most promising rules come first, because a search with little effort does not try all of them.
  for (const double part : {0.8, 1.0, 0.9, 0.7, 0.5, 1.1}) {
    for (const bool one_input_a_turn : {false, true}) {
      OrderRules rules;
      rules.idle_budget = part * pause;
      rules.preference = Preference::turn_about;
      rules.one_input_a_turn = one_input_a_turn;
      starts.push_back(rules);
    }
  }
  return starts;
}

std::vector<OrderRules> starting_rules(const OrderCosts& costs) {
  const Fitting fitting = fitting_of(costs);
  std::vector<StartingRow> rows;
  for (const StartingRow& row : starting_rule_table()) {
    // More than two chunks start from the rows for two chunks. Rows for slightly more memory are also tried,
    // because the builder never exceeds the limit.
    const bool suits = std::min(2, fitting.chunks) == row.chunks && row.limit <= fitting.limit + kAbove;
    if (suits) rows.push_back(row);
  }
  std::ranges::stable_sort(rows, {},
                           [&](const StartingRow& row) { return std::abs(row.limit - fitting.limit); });
  std::vector<OrderRules> starts;
  for (const StartingRow& row : rows) {
    OrderRules rules = fitted(rules_of(row), fitting);
    const double budget = rules.idle_budget;
    // A row far below the limit is used only with the memory for which it was found (see below).
    for (const double part : {1.0, 0.8, 1.2}) {
      if (row.limit < fitting.limit - kBelow) break;
      rules.idle_budget = part * budget;
      starts.push_back(rules);
    }
    rules.idle_budget = budget;
    // The rules are also tried with the memory for which the row was found. Therefore a larger limit never
    // starts from worse rules than a smaller one.
    rules.memory_share = std::min(1.0, row.limit / fitting.limit);
    if (rules.memory_share < 1) starts.push_back(rules);
  }
  return starts;
}

}  // namespace penstock
