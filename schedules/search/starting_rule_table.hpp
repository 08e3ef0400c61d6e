#pragma once
// The table of rules from which searches start. Only schedules/ includes this header.

#include <cstdint>
#include <span>
#include <string_view>

#include "schedules/search/order_rules.hpp"

namespace penstock {

/// Rules for a number of chunks a rank and a memory limit. The other members are those of OrderRules.
struct StartingRow {
  std::int32_t chunks = 1;
  /// The memory limit, in units of what 1F1B holds on its first rank.
  double limit = 1;
  /// The idle budget, in units of a rank's work on p microbatches.
  double idle_budget = 0;
  /// The additional budget for each earlier rank, in units of a rank's work on one microbatch.
  double idle_budget_per_rank = 0;
  double forward_patience = 1;
  double weight_patience = 1;
  double in_flight = 0;
  double in_flight_per_rank = 0;
  double lead = 0;
  double lead_per_rank = 0;
  /// One letter for each rank.
  std::string_view more_in_flight;
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

/// Returns the rows by ascending chunks and limit.
std::span<const StartingRow> starting_rule_table();

/// Returns the row's rules without converting its idle budgets to ns.
OrderRules rules_of(const StartingRow& row);

}  // namespace penstock
