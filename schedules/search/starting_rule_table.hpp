#pragma once
// Rules that were good elsewhere, as data. Private to schedules/.

#include <cstdint>
#include <span>
#include <string_view>

#include "schedules/search/order_rules.hpp"

namespace penstock {

/// Rules for a number of chunks a rank and a limit on memory; the members are those of OrderRules.
struct StartingRow {
  std::int32_t chunks = 1;
  double limit = 1;                 ///< in what 1F1B holds on its first rank
  double idle_budget = 0;           ///< in the work of p microbatches on a rank
  double idle_budget_per_rank = 0;  ///< in the work of one
  double forward_patience = 1;
  double weight_patience = 1;
  double in_flight = 0;
  double in_flight_per_rank = 0;
  double lead = 0;
  double lead_per_rank = 0;
  std::string_view more_in_flight;  ///< a letter a rank
  std::string_view more_lead;
  Preference preference = Preference::input_first;
  ChunkChoice forward_choice = ChunkChoice::last_first;
  ChunkChoice input_choice = ChunkChoice::last_first;
  std::int32_t lag = 0;
  std::int32_t reserve = 1;
  bool one_forward_a_turn = false;
  bool one_input_a_turn = false;
  double turn_window = 1;
  std::int32_t most_owed = 0;
};

/// By chunks and limit, ascending.
std::span<const StartingRow> starting_rule_table();

/// The row's rules, with its idle budgets as they stand.
OrderRules rules_of(const StartingRow& row);

}  // namespace penstock
