#pragma once
// The table of the rules from which searches start. Only schedules/ includes this header.

#include <cstdint>
#include <span>
#include <string_view>

#include "schedules/search/order_rules.hpp"

namespace penstock {

/// Rules that were found for a number of chunks on each rank and a memory limit. Members without a comment
/// are those of OrderRules.
struct StartingRow {
  std::int32_t chunks = 1;
  /// The memory limit, divided by the memory that 1F1B needs on its first rank.
  double limit = 1;
  /// The idle budget, divided by a rank's work on p microbatches, where p is the number of ranks.
  double idle_budget = 0;
  /// The additional idle budget for each earlier rank, divided by a rank's work on one microbatch.
  double idle_budget_per_rank = 0;
  double forward_patience = 1;
  double weight_patience = 1;
  double in_flight = 0;
  double in_flight_per_rank = 0;
  double lead = 0;
  double lead_per_rank = 0;
  /// One letter for each rank (starting_rule_table.cpp).
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

/// Returns all rows in ascending order of chunks and limit.
std::span<const StartingRow> starting_rule_table();

/// Returns the rules of the row. Its idle budgets are not converted to ns.
OrderRules rules_of(const StartingRow& row);

}  // namespace penstock
