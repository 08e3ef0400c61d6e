#pragma once
// The rules by which order_builder.cpp builds an order. Their constants are variables, which synthesis.cpp
// searches. Only schedules/ includes this header.

#include <cstdint>
#include <vector>

namespace penstock {

/// The preference of a rank when an F and an I have both arrived.
enum class Preference : std::uint8_t { input_first, turn_about, forward_first };

/// The preference among a rank's chunks when several could run.
enum class ChunkChoice : std::uint8_t { last_first, first_first, by_turns };

/// The variables of the rules. Chunk c of a rank is the c-th of its stages that a microbatch passes.
struct OrderRules {
  /// The time in ns that a rank may pause for something more urgent.
  double idle_budget = 0;
  /// The additional idle budget for each earlier rank.
  double idle_budget_per_rank = 0;
  /// The share of an F's duration that a rank waits at most for an I.
  double forward_patience = 1;
  /// The share of a W's duration that a rank waits at most for an F or I.
  double weight_patience = 1;
  /// The most microbatches between F and I on a rank, all chunks together.
  double in_flight = kUnlimited;
  /// The additional microbatches for each later rank.
  double in_flight_per_rank = 0;
  /// The most microbatches that a chunk is ahead of the next one.
  double lead = kUnlimited;
  /// The additional lead for each later rank.
  double lead_per_rank = 0;
  /// Additional microbatches in flight of each rank; empty means 0.
  std::vector<std::int8_t> more_in_flight{};
  /// Additional lead of each rank; empty means 0.
  std::vector<std::int8_t> more_lead{};
  Preference preference = Preference::input_first;
  ChunkChoice forward_choice = ChunkChoice::last_first;
  ChunkChoice input_choice = ChunkChoice::last_first;
  /// The microbatches by which the later chunk may be ahead with ChunkChoice::by_turns of I.
  std::int32_t lag = 0;
  /// The microbatches of later chunks for which an F must leave room.
  std::int32_t reserve = 1;
  /// True if an I must come between two F.
  bool one_forward_a_turn = false;
  /// True if an F must come between two I while one arrives within `turn_window` F durations.
  bool one_input_a_turn = false;
  double turn_window = 1;
  /// The number of Ws that a rank may owe while memory holds an F back.
  std::int32_t most_owed = kAnyNumber;
  /// The share of its memory limit that a rank uses.
  double memory_share = 1;

  static constexpr double kUnlimited = 1e9;
  static constexpr std::int32_t kAnyNumber = 1'000'000'000;

  friend bool operator==(const OrderRules&, const OrderRules&) = default;
};

}  // namespace penstock
