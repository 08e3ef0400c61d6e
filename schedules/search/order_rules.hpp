#pragma once
// The rules by which order_builder.cpp builds an order. synthesis.cpp searches for good values of their
// constants. Only schedules/ includes this header.

#include <cstdint>
#include <vector>

namespace penstock {

/// The preferred action of a rank when an F and an I have both arrived.
enum class Preference : std::uint8_t { input_first, turn_about, forward_first };

/// The preferred chunk of a rank when several chunks can run.
enum class ChunkChoice : std::uint8_t { last_first, first_first, by_turns };

/// The constants of the rules. Chunk c of a rank is the c-th of its stages, in the order of the model.
struct OrderRules {
  /// The total time in ns that a rank may pause to wait for a more urgent action.
  double idle_budget = 0;
  /// The additional idle budget in ns for each earlier rank.
  double idle_budget_per_rank = 0;
  /// The longest time that a rank waits for an I instead of running an F, as a share of the F's duration.
  double forward_patience = 1;
  /// The longest time that a rank waits for an F or I instead of running a W, as a share of the W's duration.
  double weight_patience = 1;
  /// The largest number of microbatches between F and I on a rank, for all chunks together.
  double in_flight = kUnlimited;
  /// The additional number of microbatches for each later rank.
  double in_flight_per_rank = 0;
  /// The largest number of microbatches by which a chunk may be ahead of the next chunk.
  double lead = kUnlimited;
  /// The additional lead for each later rank.
  double lead_per_rank = 0;
  /// The additional number of microbatches in flight, by rank. Empty means 0.
  std::vector<std::int8_t> more_in_flight{};
  /// The additional lead, by rank. Empty means 0.
  std::vector<std::int8_t> more_lead{};
  Preference preference = Preference::input_first;
  ChunkChoice forward_choice = ChunkChoice::last_first;
  ChunkChoice input_choice = ChunkChoice::last_first;
  /// The number of microbatches by which a later chunk may be ahead in I with ChunkChoice::by_turns.
  std::int32_t lag = 0;
  /// The number of microbatches of later chunks for which an F must leave memory.
  std::int32_t reserve = 1;
  /// True if an I must run between two F actions.
  bool one_forward_a_turn = false;
  /// True if an F must run between two I actions, as long as an F arrives within `turn_window` F durations.
  bool one_input_a_turn = false;
  double turn_window = 1;
  /// The number of Ws that a rank may postpone while an F waits for memory.
  std::int32_t most_owed = kAnyNumber;
  /// The share of its memory limit that a rank may use.
  double memory_share = 1;

  static constexpr double kUnlimited = 1e9;
  static constexpr std::int32_t kAnyNumber = 1'000'000'000;

  friend bool operator==(const OrderRules&, const OrderRules&) = default;
};

}  // namespace penstock
