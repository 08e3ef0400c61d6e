#pragma once
// What an order is built by (order_builder.cpp): rules whose constants are variables, which synthesis.cpp
// searches. Private to schedules/.

#include <cstdint>
#include <vector>

namespace penstock {

/// What a rank prefers where an F and an I are both there.
enum class Preference : std::uint8_t { input_first, turn_about, forward_first };

/// Which of a rank's chunks goes first where several could.
enum class ChunkChoice : std::uint8_t { last_first, first_first, by_turns };

/// The variables. A stage is meant where the text says chunk: chunk c of a rank is the c-th that a microbatch
/// passes there. `p - 1 - rank` is how many ranks lie behind.
struct OrderRules {
  double idle_budget = 0;           ///< ns that a rank may pause for something more urgent
  double idle_budget_per_rank = 0;  ///< more of it for each rank that lies before
  double forward_patience = 1;      ///< a rank waits at most so much of an F for an I
  double weight_patience = 1;       ///< and so much of a W for an F or I
  double in_flight = kUnlimited;    ///< most microbatches between F and I on a rank, all chunks together
  double in_flight_per_rank = 0;    ///< more of them for each rank that lies behind
  double lead = kUnlimited;         ///< most microbatches that a chunk is ahead of the next one
  double lead_per_rank = 0;
  std::vector<std::int8_t> more_in_flight{};  ///< by rank; empty: 0
  std::vector<std::int8_t> more_lead{};       ///< by rank; empty: 0
  Preference preference = Preference::input_first;
  ChunkChoice forward_choice = ChunkChoice::last_first;
  ChunkChoice input_choice = ChunkChoice::last_first;
  std::int32_t lag = 0;             ///< inputs by turns: how far the next chunk is ahead at least
  std::int32_t reserve = 1;         ///< microbatches of later chunks that an F leaves room for
  bool one_forward_a_turn = false;  ///< no second F before the next I
  bool one_input_a_turn = false;    ///< no second I while an F is due within `turn_window` of an F
  double turn_window = 1;
  std::int32_t most_owed = kAnyNumber;  ///< W that a rank may owe while memory holds an F back
  double memory_share = 1;              ///< of its limit that a rank uses

  static constexpr double kUnlimited = 1e9;
  static constexpr std::int32_t kAnyNumber = 1'000'000'000;

  friend bool operator==(const OrderRules&, const OrderRules&) = default;
};

}  // namespace penstock
