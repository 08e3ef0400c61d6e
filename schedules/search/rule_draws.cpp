// Draws rules for a search. Fresh rules have a random value for each constant. Changed rules are the best
// rules with one or two changes. Fresh rules explore new regions, and changed rules improve within a region.
// Equal seeds and draw numbers give equal rules. Tested by synthesis_test.cpp.

#include "schedules/search/rule_draws.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedules/ir/index.hpp"
#include "schedules/search/order_rules.hpp"

namespace penstock {
namespace {

/// Returns true if the cap is limited. Small changes never bring an unlimited cap below this value.
bool is_capped(double cap) { return cap < OrderRules::kUnlimited / 2; }

/// Draws whether F and I alternate, and how soon the next F must arrive for that.
void draw_turns(OrderRules& rules, Draws& draws) {
  rules.one_forward_a_turn = draws.happens(0.5);
  rules.one_input_a_turn = draws.happens(0.5);
  rules.turn_window = draws.between(0, 2);
}

/// Draws which chunk comes first. This has no effect with one chunk on each rank.
void draw_choices(OrderRules& rules, Draws& draws) {
  rules.forward_choice = static_cast<ChunkChoice>(draws.from_to(0, 2));
  rules.input_choice = static_cast<ChunkChoice>(draws.from_to(0, 2));
  rules.lag = draws.from_to(0, 1);
}

void draw_preference(OrderRules& rules, Draws& draws) {
  rules.preference = static_cast<Preference>(draws.from_to(0, 2));
}

void draw_most_owed(OrderRules& rules, Draws& draws, double unlimited) {
  rules.most_owed = draws.happens(unlimited) ? OrderRules::kAnyNumber : draws.from_to(0, 6);
}

/// Draws the cap on microbatches in flight. About a third of the caps are a few microbatches plus a number
/// for each later rank. About a quarter are the number that fits into memory, decreasing towards the end of
/// the pipeline. The others have no limit.
void draw_in_flight(OrderRules& rules, Draws& draws, const RuleScale& scale) {
  const double choice = draws.between(0, 1);
  if (choice < 0.35) {
    rules.in_flight = draws.between(1, 8);
    rules.in_flight_per_rank = draws.between(0.3, 3) * scale.chunks;
  } else if (choice < 0.6) {
    rules.in_flight_per_rank = draws.between(0, 1.2) * scale.units / scale.ranks;
    rules.in_flight = scale.units - rules.in_flight_per_rank * (scale.ranks - 1) * draws.between(0.6, 1.1);
  }
}

/// Adds or subtracts 1 on one rank, or on a range of ranks.
void change_own(std::vector<std::int8_t>& own, Draws& draws, std::int32_t ranks) {
  own.resize(index(ranks), 0);
  const std::int32_t from = draws.from_to(0, ranks - 1);
  const std::int32_t to = draws.happens(0.5) ? from : std::min(ranks - 1, from + draws.from_to(0, ranks / 2));
  const int step = draws.happens(0.5) ? 1 : -1;
  for (std::int32_t rank = from; rank <= to; ++rank)
    own[index(rank)] = static_cast<std::int8_t>(std::clamp(own[index(rank)] + step, -100, 100));
}

/// Changes a cap on single ranks: the microbatches in flight, or the lead of a chunk over the next one.
void change_caps(OrderRules& rules, Draws& draws, const RuleScale& scale) {
  const bool of_lead = scale.chunks > 1 && draws.happens(0.5);
  double& cap = of_lead ? rules.lead : rules.in_flight;
  // Without a limit, a change by one has no effect, so the cap is first set to the number that fits into
  // memory.
  if (!is_capped(cap)) {
    cap = scale.units;
    (of_lead ? rules.lead_per_rank : rules.in_flight_per_rank) = 0;
  }
  change_own(of_lead ? rules.more_lead : rules.more_in_flight, draws, scale.ranks);
}

void change_once(OrderRules& rules, Draws& draws, const RuleScale& scale) {
  // Caps of single ranks are drawn twice as often, because each rank has its own value.
  switch (draws.from_to(0, 14)) {
    case 0:
      rules.idle_budget = scale.idle_ns * draws.between(0.3, 1.1);
      break;
    case 1:
      rules.forward_patience = draws.between(0, 1);
      break;
    case 2:
      rules.weight_patience = draws.between(0, 1);
      break;
    case 3:
      rules.in_flight += is_capped(rules.in_flight) ? draws.between(-2, 2) : 0;
      break;
    case 4:
      rules.in_flight_per_rank += draws.between(-0.3, 0.3);
      break;
    case 5:
      rules.lead = is_capped(rules.lead) ? rules.lead + draws.between(-2, 2) : draws.between(1, 8);
      break;
    case 6:
      rules.lead_per_rank += draws.between(-0.3, 0.3);
      break;
    case 7:
      rules.reserve = draws.from_to(1, 4);
      break;
    case 8:
      draw_most_owed(rules, draws, 0.5);
      break;
    case 9:
      rules.idle_budget_per_rank =
          draws.happens(0.5) ? 0 : scale.idle_ns / scale.ranks * draws.between(-0.5, 0.5);
      break;
    case 10:
    case 11:
      change_caps(rules, draws, scale);
      break;
    case 12:
      draw_preference(rules, draws);
      break;
    case 13:
      draw_choices(rules, draws);
      break;
    default:
      draw_turns(rules, draws);
  }
}

}  // namespace

OrderRules fresh_rules(Draws& draws, const RuleScale& scale) {
  OrderRules rules;
  rules.idle_budget = draws.happens(0.1) ? 0 : scale.idle_ns * draws.between(0.2, 1.2);
  rules.forward_patience = draws.happens(0.5) ? 1 : draws.between(0, 1);
  rules.weight_patience = draws.happens(0.5) ? 1 : draws.between(0, 1);
  draw_in_flight(rules, draws, scale);
  if (scale.chunks > 1) {
    if (draws.happens(0.7)) {
      rules.lead = draws.between(1, 6);
      rules.lead_per_rank = draws.between(0.2, 2.2);
    }
    draw_choices(rules, draws);
    rules.reserve = draws.from_to(1, 4);
  }
  draw_most_owed(rules, draws, 0.7);
  draw_preference(rules, draws);
  draw_turns(rules, draws);
  return rules;
}

OrderRules changed_rules(OrderRules rules, Draws& draws, const RuleScale& scale) {
  for (std::int32_t change = draws.from_to(1, 2); change > 0; --change) change_once(rules, draws, scale);
  return rules;
}

}  // namespace penstock
