#pragma once
// Builds a complete order by given rules, in one pass in the order of time. The rules contain constants, and
// synthesis.cpp searches for good values of these constants. Only schedules/ includes this header.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// The kind of action that a rank prefers if the inputs of an F and an I (gradient of the input) have both
/// arrived.
enum class Preference : std::uint8_t { input_first, turn_about, forward_first };

/// The chunk that a rank prefers if it can run the same kind of action for several of its chunks.
enum class ChunkChoice : std::uint8_t { last_first, first_first, by_turns };

/// The constants of the rules by which OrderBuilder builds an order. Chunk c of a rank is the c-th stage of
/// this rank, in the order of the model.
struct OrderRules {
  /// The total time in ns that a rank may pause while it waits for more urgent actions.
  double idle_budget = 0;
  /// The time in ns that is added to `idle_budget` for each rank before this rank.
  double idle_budget_per_rank = 0;
  /// The longest time that a rank waits for the input of an I (gradient of the input) although it could run
  /// an F. It is a fraction of the F's duration.
  double forward_patience = 1;
  /// The longest time that a rank waits for the input of an F or I although it could run a W (gradient of
  /// the weights). It is a fraction of the W's duration.
  double weight_patience = 1;
  /// The largest number of microbatches that may be between F and I on a rank, for all its chunks together.
  double in_flight = kUnlimited;
  /// The number that is added to `in_flight` for each rank after this rank.
  double in_flight_per_rank = 0;
  /// The largest number of microbatches by which a chunk may be ahead of the next chunk.
  double lead = kUnlimited;
  /// The number that is added to `lead` for each rank after this rank.
  double lead_per_rank = 0;
  /// The number that is added to `in_flight` on each rank, by rank. Empty means 0 on all ranks.
  std::vector<std::int8_t> more_in_flight{};
  /// The number that is added to `lead` on each rank, by rank. Empty means 0 on all ranks.
  std::vector<std::int8_t> more_lead{};
  Preference preference = Preference::input_first;
  ChunkChoice forward_choice = ChunkChoice::last_first;
  ChunkChoice input_choice = ChunkChoice::last_first;
  /// The number of I actions (gradient of the input) by which a later chunk may be ahead of an earlier one.
  /// Only ChunkChoice::by_turns uses it.
  std::int32_t lag = 0;
  /// The memory that must remain free after an F, as a number of microbatches of each later chunk of the
  /// rank.
  std::int32_t reserve = 1;
  /// True if an I (gradient of the input) must run between two F actions of a rank.
  bool one_forward_a_turn = false;
  /// True if an F must run between two I actions (gradient of the input) of a rank. The rank waits for the
  /// F only if its input arrives within `turn_window` F durations.
  bool one_input_a_turn = false;
  double turn_window = 1;
  /// The number of W actions (gradient of the weights) that a rank may postpone while an F waits for
  /// memory.
  std::int32_t most_owed = kAnyNumber;
  /// The fraction of its memory limit that a rank may use.
  double memory_share = 1;

  static constexpr double kUnlimited = 1e9;
  static constexpr std::int32_t kAnyNumber = 1'000'000'000;

  friend bool operator==(const OrderRules&, const OrderRules&) = default;
};

/// The builder of orders for one set of costs. A search runs it hundreds of times with different rules.
/// Therefore it allocates all memory at the beginning, and a run only writes numbers. The F actions of a
/// stage run in ascending order of microbatches, and so do its I actions (gradient of the input). A counter
/// therefore gives the next microbatch.
class OrderBuilder {
 public:
  /// Prepares to build orders of `microbatches` microbatches, at least 1. The length of an order is
  /// measured by `objective`.
  OrderBuilder(const OrderCosts& costs, Objective objective, std::int32_t microbatches);

  /// Builds the order that `rules` give and returns its length. Returns nothing if the order is longer than
  /// `limit`, or if ranks wait forever for memory.
  std::optional<Ns> run(const OrderRules& rules, Ns limit);
  /// Returns the order of the last run. Requires that this run returned a length.
  std::vector<std::vector<Action>> lists() const;
  /// Returns the number of actions that all runs so far have placed. The next function, actions(), returns
  /// the number of actions in one complete run.
  std::int64_t placed_actions() const { return placed_; }
  std::int64_t actions() const { return 3 * std::int64_t{microbatches_} * std::ssize(chunks_); }

 private:
  static constexpr Ns kNever = std::numeric_limits<Ns>::max();
  static constexpr std::int32_t kNone = -1;
  static constexpr std::int32_t kForward = 0;
  static constexpr std::int32_t kInput = 1;
  static constexpr std::int32_t kWeight = 2;

  /// One stage, which is a chunk of its rank. The chunks of a rank are adjacent in memory, in the order in
  /// which a microbatch passes through them.
  struct alignas(64) Chunk {
    // These members change during a run.
    Ns next_forward = kNever;  // the time at which the input of the next F arrives
    Ns next_input = kNever;
    std::int32_t forwards = 0;
    std::int32_t inputs = 0;
    std::int32_t most_lead = 0;  // the largest allowed lead over the next chunk, in microbatches
    std::int32_t rank = 0;
    Bytes needed = 0;  // memory that an F needs, plus the memory that it must leave for later chunks
    Ns forward_window = 0;
    Ns weight_window = 0;
    Ns turn_window = 0;
    // These members belong to the stage and stay constant.
    std::array<Ns, 3> durations{};  // F, I, W
    std::array<Bytes, 3>
        released{};               // memory that F, I and W release; negative for F, which allocates memory
    std::int32_t before = kNone;  // number of the chunk that has the previous stage, or kNone
    std::int32_t behind = kNone;  // number of the chunk that has the next stage, or kNone
    Ns forward_delay = 0;         // the delay of the message to the next stage
    Ns input_delay = 0;           // the delay of the message to the previous stage
    std::int32_t stage = 0;
  };
  struct alignas(64) Rank {
    Ns free_at = 0;
    Ns idle = 0;
    Ns first_start = kNever;
    Ns most_idle = 0;  // the limit of `idle`; with more idle time the order is too long
    Ns budget = 0;
    Bytes free_bytes = 0;
    std::int32_t in_flight = 0;
    std::int32_t most_in_flight = 0;
    std::int32_t owed_from = 0;  // the microbatch of the oldest W that has not run yet
    std::int32_t owed_to = 0;
    std::int32_t inputs = 0;
    std::int32_t forwards_left = 0;
    std::int32_t last_forward = 0;  // the chunk of the last F that ran
    std::int32_t last = kWeight;    // the kind of the last F or I that ran
    std::size_t owed_at = 0;        // index in owed_ of the first W that the rank may postpone
    std::size_t order_at = 0;       // index in order_ of the rank's next action
    Ns busy = 0;
    Bytes limit = 0;
    bool has_started() const { return first_start != kNever; }
    bool owes_weight() const { return owed_from < owed_to; }
  };
  /// The actions that a rank can run now, and the times at which its next inputs arrive.
  struct Sight {
    std::int32_t input = kNone;      // the chunk whose I the rank prefers
    std::int32_t forward = kNone;    // the chunk whose F the rank prefers
    Ns next_input = kNever;          // the time at which the first I arrives
    Ns next_forward = kNever;        // the first arrival of an F that fits into memory
    bool memory_holds_back = false;  // true if an F has arrived but does not fit into memory
  };
  /// The decision of a rank: either to run an action, or to wait until the time `until`.
  struct Choice {
    std::int32_t kind = kNone;
    std::int32_t chunk = 0;
    Ns until = kNever;
  };

  /// Stores the costs of stages by chunk, and connects chunks that exchange messages.
  void add_chunks(const OrderCosts& costs);
  void connect(const OrderCosts& costs, const std::vector<std::int32_t>& chunk_of_stage);
  void prepare_run(const OrderRules& rules, Ns limit);
  void prepare_chunk(Chunk& chunk, std::int32_t number, const OrderRules& rules) const;

  /// Places actions until all are placed or the order is longer than the limit. `Chunks` is the number of
  /// chunks on a rank if it is known at compile time, or 0.
  template <std::int32_t Chunks>
  bool place_all();
  template <std::int32_t Chunks>
  std::int32_t last_chunk() const {
    return Chunks > 0 ? Chunks - 1 : chunks_per_rank_ - 1;
  }
  /// Finds the I (gradient of the input) and the F that the rank would run among those whose inputs have
  /// arrived. Also finds the next arrival of an input. An F counts only if the caps of the rules allow it.
  /// If an F is ready but does not fit into memory, the function sets a flag, because a W may free the
  /// memory.
  template <std::int32_t Chunks>
  void see_inputs(const Chunk* chunks, Ns now, Sight& sight) const;
  template <std::int32_t Chunks>
  void see_forwards(const Rank& rank, const Chunk* chunks, Ns now, Sight& sight) const;
  /// Returns the number of the chunk at which the rank begins to look for an F. The rank prefers an F of
  /// this chunk.
  template <std::int32_t Chunks>
  std::int32_t first_in_sight(const Rank& rank) const;
  /// Removes choices from `sight` if the rules require that F and I alternate and it is the turn of the
  /// other kind.
  void take_turns(const Rank& rank, const Chunk* chunks, Ns now, Sight& sight) const;
  template <std::int32_t Chunks>
  Choice choose(std::int32_t number, Ns now) const;
  /// Chooses the F or a W (gradient of the weights), or waits if a more urgent action will be ready soon.
  /// An I (gradient of the input) is more urgent than an F. An F or I is more urgent than a W.
  Choice forward_or_wait(const Rank& rank, const Chunk& chunk, const Sight& sight, Ns now) const;
  Choice weight_or_wait(const Rank& rank, const Sight& sight, Ns now) const;
  Choice owed_weight(const Rank& rank) const;

  /// Starts the chosen action on the rank at `now`. Returns false if the pauses of the rank already make
  /// the order longer than the limit.
  bool place(std::int32_t number, const Choice& choice, Ns now);
  /// Records that an F (give_forward) or I (give_input) ends at `end`. The next action of the chunk may now
  /// be possible, and the output is sent to the next stage.
  void give_forward(std::int32_t number, Ns end);
  void give_input(std::int32_t number, Ns end);
  void deliver_forward(std::int32_t to, std::int32_t microbatch, Ns arrival);
  void deliver_input(std::int32_t to, std::int32_t microbatch, Ns arrival);
  void wake(std::int32_t rank, Ns time);
  /// Returns true if all actions are placed. If it returns false at the end of a run, ranks wait forever
  /// for memory.
  bool is_complete() const { return placed_ - placed_before_ == actions(); }
  Ns length() const;

  std::size_t at(std::int32_t chunk, std::int32_t microbatch) const {
    return index(chunk) * index(microbatches_) + index(microbatch);
  }

  std::int32_t microbatches_;
  std::int32_t chunks_per_rank_ = 1;
  Objective objective_;
  Preference preference_ = Preference::input_first;
  ChunkChoice forward_choice_ = ChunkChoice::last_first;
  ChunkChoice input_choice_ = ChunkChoice::last_first;
  std::int32_t lag_ = 0;
  bool one_forward_a_turn_ = false;
  bool one_input_a_turn_ = false;
  std::int32_t most_owed_ = 0;
  std::vector<Chunk> chunks_;
  std::vector<Rank> ranks_;
  std::vector<Ns> forward_arrivals_;  // arrival time of each chunk and microbatch
  std::vector<Ns> input_arrivals_;
  std::vector<std::int32_t> owed_;   // chunks of the I actions of each rank, in order
  std::vector<std::int32_t> order_;  // actions of each rank in order, as 3 x chunk + kind
  WakeTimes wakings_;
  std::int64_t placed_ = 0;
  std::int64_t placed_before_ = 0;  // the number of actions placed before this run
};

}  // namespace penstock
