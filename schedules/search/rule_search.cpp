// A search builds the whole order again and again by rules whose constants it draws (rule_draws.hpp):
//
//   draw -> the order of a few microbatches -> promising? -> the order of all of them -> the best so far
//
// Head, a period and tail are all there in two or three times as many microbatches as ranks, so most draws
// are judged on these alone.

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

/// Two and a half times as many microbatches as ranks, if there are more.
std::int32_t part_of(const OrderCosts& costs) {
  const auto enough = static_cast<std::int32_t>(5 * costs.memory_limit.size() / 2);
  return std::min(costs.microbatches, enough);
}

/// Activations of a stage that fit into the rank with least room; very many where nothing is kept.
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

/// Fresh ones in two draws of five, and until there are any; changed ones otherwise.
OrderRules RuleSearch::next_rules() {
  // Budgets are drawn on the scale of what the best order pauses, which shrinks as the search goes on. Before
  // there is one, a quarter of the work is a guess.
  const bool known = best_.length < RatedRules::kUnknownLength;
  scale_.idle_ns = static_cast<double>(known ? best_.length - busiest_ : busiest_ / 4);
  if (!known || draws_.happens(0.4)) return fresh_rules(draws_, scale_);
  // Rules that are best on the part alone are another place to start from.
  const bool from_part =
      has_part_ && best_of_part_.length < RatedRules::kUnknownLength && draws_.happens(0.7);
  return changed_rules(from_part ? best_of_part_.rules : best_.rules, draws_, scale_);
}

/// Whether the rules are good enough on the part to be tried on the whole.
bool RuleSearch::is_promising(const OrderRules& rules) {
  if (!has_part_) return true;
  const Ns best = best_of_part_.length;
  // The best on the whole need not be the best on a part: now and then 2 % of the pauses are forgiven.
  const Ns slack = best < RatedRules::kUnknownLength && draws_.happens(0.3) ? (best - busiest_) / 50 : 0;
  const std::optional<Ns> length = part_.run(rules, best + slack);
  if (!length) return false;
  if (*length <= best) best_of_part_ = {.rules = rules, .length = *length};
  return true;
}

void RuleSearch::try_rules(const OrderRules& rules) {
  if (!is_promising(rules)) return;
  const std::optional<Ns> length = whole_.run(rules, best_.length);
  // Also where it is as long as the best: the search drifts on where orders are equally long.
  if (length) best_ = {.rules = rules, .length = *length};
}

std::vector<std::vector<Action>> RuleSearch::lists() {
  // Only the last order is kept, which was seldom the best; building it again costs one pass.
  whole_.run(best_.rules, best_.length);
  return whole_.lists();
}

}  // namespace penstock
