// Finds constants for the rules of order_builder.cpp that give a short order. A search draws constants at
// random, or changes good ones, and builds the order with them many times. The first part of this file
// draws rules, and the second part stores the best ones. Tested by synthesis_test.cpp.

#include "schedules/search/synthesis.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/order_builder.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

// Draws rules for a search. Fresh rules have a random value for each constant, so they explore new regions.
// Changed rules are the best rules with one or two changes, so they improve within a region. Equal seeds and
// draw numbers give equal rules. Tested by synthesis_test.cpp.

namespace {

/// Returns true if the cap limits anything. Unlimited caps are stored as kUnlimited, and small changes
/// never bring one below half of it.
bool is_capped(double cap) { return cap < OrderRules::kUnlimited / 2; }

/// Draws at random whether an I must run between two Fs, and whether an F must run between two Is. Also
/// draws how soon the next F must arrive for the second rule.
void draw_turns(OrderRules& rules, Draws& draws) {
  rules.one_forward_a_turn = draws.happens(0.5);
  rules.one_input_a_turn = draws.happens(0.5);
  rules.turn_window = draws.between(0, 2);
}

/// Draws at random which chunk of a rank runs first if several can run. This has no effect if each rank has
/// one chunk.
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

/// Draws at random the cap on microbatches between F and I (in flight). About a third of the caps are a few
/// microbatches plus a number for each later rank. About a quarter begin with the number that fits into
/// memory and decrease towards the end of the pipeline. The others have no limit.
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

/// Adds 1 to the values of one rank or of a range of ranks, or subtracts 1. `own` has one value for each
/// rank.
void change_own(std::vector<std::int8_t>& own, Draws& draws, std::int32_t ranks) {
  own.resize(index(ranks), 0);
  const std::int32_t from = draws.from_to(0, ranks - 1);
  const std::int32_t to = draws.happens(0.5) ? from : std::min(ranks - 1, from + draws.from_to(0, ranks / 2));
  const int step = draws.happens(0.5) ? 1 : -1;
  for (std::int32_t rank = from; rank <= to; ++rank)
    own[index(rank)] = static_cast<std::int8_t>(std::clamp(own[index(rank)] + step, -100, 100));
}

/// Changes a cap on single ranks: the cap on microbatches in flight, or the cap on the lead of a chunk over
/// the next one.
void change_caps(OrderRules& rules, Draws& draws, const RuleScale& scale) {
  const bool of_lead = scale.chunks > 1 && draws.happens(0.5);
  double& cap = of_lead ? rules.lead : rules.in_flight;
  // A change by one has no effect on an unlimited cap. Such a cap is therefore first set to the number of
  // microbatches that fits into memory.
  if (!is_capped(cap)) {
    cap = scale.units;
    (of_lead ? rules.lead_per_rank : rules.in_flight_per_rank) = 0;
  }
  change_own(of_lead ? rules.more_lead : rules.more_in_flight, draws, scale.ranks);
}

void change_once(OrderRules& rules, Draws& draws, const RuleScale& scale) {
  // Caps of single ranks are drawn twice as often as other constants, because each rank has its own value.
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

// A search builds the complete order many times, with random constants in the rules (Draws):
//
//   draw rules -> order of a few microbatches -> promising? -> order of all microbatches -> the best so far
//
// Two or three times as many microbatches as ranks already show the warm-up, the steady state and the drain.
// Most rules can therefore be rejected with these few microbatches alone. synthesis.cpp runs several
// competing searches. Tested by synthesis_test.cpp.

namespace {

/// Returns the number of microbatches for a quick trial of rules: two and a half times the number of ranks,
/// but at most all microbatches.
std::int32_t part_of(const OrderCosts& costs) {
  const auto enough = static_cast<std::int32_t>(5 * costs.memory_limit.size() / 2);
  return std::min(costs.microbatches, enough);
}

/// Returns the number of activations of a stage that fit into the rank with the least memory. Returns a very
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

/// Returns the rules that the search tries next. Two of five times, they are drawn afresh; otherwise, they
/// are changed copies of good rules. Without a known order, all rules are drawn afresh.
OrderRules RuleSearch::next_rules() {
  // Idle budgets are drawn in proportion to the idle time of the best order, which decreases during the
  // search. Without a known order, a quarter of the work is used as an estimate.
  const bool known = best_.length < RatedRules::kUnknownLength;
  scale_.idle_ns = static_cast<double>(known ? best_.length - busiest_ : busiest_ / 4);
  if (!known || draws_.happens(0.4)) return fresh_rules(draws_, scale_);
  // The rules that are best for the first few microbatches are another starting point.
  const bool from_part =
      has_part_ && best_of_part_.length < RatedRules::kUnknownLength && draws_.happens(0.7);
  return changed_rules(from_part ? best_of_part_.rules : best_.rules, draws_, scale_);
}

/// Returns true if the rules give a good order of the first few microbatches. Only then are they tried for
/// all microbatches.
bool RuleSearch::is_promising(const OrderRules& rules) {
  if (!has_part_) return true;
  const Ns best = best_of_part_.length;
  // The best rules for all microbatches need not be the best ones for the first few. Therefore, in 30 % of
  // the cases, the order of the first few may be longer by 2 % of the idle time.
  const Ns slack = best < RatedRules::kUnknownLength && draws_.happens(0.3) ? (best - busiest_) / 50 : 0;
  const std::optional<Ns> length = part_.run(rules, best + slack);
  if (!length) return false;
  if (*length <= best) best_of_part_ = {.rules = rules, .length = *length};
  return true;
}

void RuleSearch::try_rules(const OrderRules& rules) {
  if (!is_promising(rules)) return;
  const std::optional<Ns> length = whole_.run(rules, best_.length);
  // An equally long order also replaces the best one. The search can then move between equally good orders.
  if (length) best_ = {.rules = rules, .length = *length};
}

std::vector<std::vector<Action>> RuleSearch::lists() {
  // The builder stores only its last order, which is seldom the best one. One more pass builds the best one
  // again.
  whole_.run(best_.rules, best_.length);
  return whole_.lists();
}

}  // namespace penstock
