// A search builds the complete order many times, with random constants in the rules (rule_draws.hpp):
//
//   draw -> the order of a few microbatches -> promising? -> the order of all of them -> the best so far
//
// Two or three times as many microbatches as ranks already show the warm-up, the steady state and the drain.
// Therefore most rules are judged by these microbatches alone. synthesis.cpp runs several competing searches.
// Tested by synthesis_test.cpp.

#include "schedules/search/rule_search.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/search_effort.hpp"
#include "schedules/search/order_rules.hpp"
#include "schedules/search/rule_draws.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {
namespace {

/// Returns two and a half times the number of ranks, but at most the number of microbatches.
std::int32_t part_of(const OrderCosts& costs) {
  const auto enough = static_cast<std::int32_t>(5 * costs.memory_limit.size() / 2);
  return std::min(costs.microbatches, enough);
}

/// Returns the number of activations of a stage that fit into the rank with least memory. Returns a very
/// large number if a microbatch needs no memory.
double units_of(const OrderCosts& costs) {
  const std::vector<MicrobatchShare> shares = microbatch_shares(costs);
  const double chunks = static_cast<double>(costs.stages.size()) / static_cast<double>(shares.size());
  double units = 1e6;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    if (shares[rank].kept == 0) continue;
    const auto limit = static_cast<double>(costs.memory_limit[rank]);
    units = std::min(units, chunks * limit / static_cast<double>(shares[rank].kept));
  }
  return units;
}

}  // namespace

RuleSearch::RuleSearch(const OrderCosts& costs, Objective objective, std::uint64_t seed, Ns bound)
    : scale_{.ranks = static_cast<std::int32_t>(costs.memory_limit.size()),
             .chunks = static_cast<std::int32_t>(costs.stages.size() / costs.memory_limit.size()),
             .units = units_of(costs)},
      busiest_(busiest_work_ns(costs)),
      bound_(bound),
      draws_(seed),
      whole_(costs, objective, costs.microbatches),
      part_(costs, objective, part_of(costs)),
      has_part_(part_of(costs) < costs.microbatches) {}

void RuleSearch::go_on(std::int64_t actions) {
  const std::int64_t end = placed_actions() + actions;
  while (!is_optimal() && placed_actions() < end) try_rules(next_rules());
}

/// Returns the next rules. Two of five draws are fresh rules, and the others are changed rules. Without a
/// known order, all rules are fresh.
OrderRules RuleSearch::next_rules() {
  // Budgets are drawn in proportion to the idle time of the best order, which decreases during the search.
  // Without a known order, a quarter of the work is an estimate.
  const bool known = best_.length < RatedRules::kUnknownLength;
  scale_.idle_ns = static_cast<double>(known ? best_.length - busiest_ : busiest_ / 4);
  if (!known || draws_.happens(0.4)) return fresh_rules(draws_, scale_);
  // The rules that are best for the first microbatches alone are another starting point.
  const bool from_part =
      has_part_ && best_of_part_.length < RatedRules::kUnknownLength && draws_.happens(0.7);
  return changed_rules(from_part ? best_of_part_.rules : best_.rules, draws_, scale_);
}

/// Returns true if the rules are good enough for the first microbatches to be tried for all.
bool RuleSearch::is_promising(const OrderRules& rules) {
  if (!has_part_) return true;
  const Ns best = best_of_part_.length;
  // The best rules for all microbatches need not be the best for the first ones. So sometimes the order may
  // be longer by 2 % of the idle time.
  const Ns slack = best < RatedRules::kUnknownLength && draws_.happens(0.3) ? (best - busiest_) / 50 : 0;
  const std::optional<Ns> length = part_.run(rules, best + slack);
  if (!length) return false;
  if (*length <= best) best_of_part_ = {.rules = rules, .length = *length};
  return true;
}

void RuleSearch::try_rules(const OrderRules& rules) {
  if (!is_promising(rules)) return;
  const std::optional<Ns> length = whole_.run(rules, best_.length);
  // An equally long order replaces the best one, so that the search moves on among equal orders.
  if (length) best_ = {.rules = rules, .length = *length};
}

std::vector<std::vector<Action>> RuleSearch::lists() {
  // The builder stores only its last order, which is seldom the best. One pass builds the best one again.
  whole_.run(best_.rules, best_.length);
  return whole_.lists();
}

}  // namespace penstock
