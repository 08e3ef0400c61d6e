#pragma once
// A whole order in one pass in order of time, by given rules. Private to schedules/.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/search_effort.hpp"
#include "schedules/search/order_rules.hpp"
#include "schedules/search/timed_lists.hpp"
#include "schedules/search/wake_times.hpp"

namespace penstock {

/// Made once for its costs, then run by one set of rules after the other: a search runs it hundreds of
/// times, so that all memory is taken in the beginning and a run writes nothing but numbers. All orders have
/// each stage's F, and each stage's I, in ascending microbatches, so that the next one of a kind and chunk is
/// a count.
class OrderBuilder {
 public:
  /// Of the first `microbatches` of the costs, at least 1.
  OrderBuilder(const OrderCosts& costs, Objective objective, std::int32_t microbatches);

  /// How long the order is that `rules` make. Nothing where it is longer than `limit`, or where ranks lock
  /// each other out of their memory.
  std::optional<Ns> run(const OrderRules& rules, Ns limit);
  /// The order of the last run, which must have come to its end.
  std::vector<std::vector<Action>> lists() const;
  /// Actions placed by all runs so far, and by a run that comes to its end.
  std::int64_t placed_actions() const { return placed_; }
  std::int64_t actions() const { return 3 * std::int64_t{microbatches_} * std::ssize(chunks_); }

 private:
  static constexpr Ns kNever = std::numeric_limits<Ns>::max();
  static constexpr std::int32_t kNone = -1;
  static constexpr std::int32_t kForward = 0;
  static constexpr std::int32_t kInput = 1;
  static constexpr std::int32_t kWeight = 2;

  /// A stage. Those of a rank lie side by side, in the order in which a microbatch passes them.
  struct alignas(64) Chunk {
    // of a run
    Ns next_forward = kNever;  // when the input of the next F arrives
    Ns next_input = kNever;
    std::int32_t forwards = 0;
    std::int32_t inputs = 0;
    std::int32_t most_lead = 0;  // over the next chunk
    std::int32_t rank = 0;
    Bytes needed = 0;  // by F, with what it leaves for later chunks
    Ns forward_window = 0;
    Ns weight_window = 0;
    Ns turn_window = 0;
    // of the stage
    std::array<Ns, 3> durations{};    // F, I, W
    std::array<Bytes, 3> released{};  // by each; F takes
    std::int32_t before = kNone;      // the chunk of the stage before
    std::int32_t behind = kNone;
    Ns forward_delay = 0;  // of what F sends to the stage behind
    Ns input_delay = 0;    // of what I sends to the stage before
    std::int32_t stage = 0;
  };
  struct alignas(64) Rank {
    Ns free_at = 0;
    Ns idle = 0;
    Ns first_start = kNever;
    Ns most_idle = 0;  // more makes the order too long
    Ns budget = 0;
    Bytes free_bytes = 0;
    std::int32_t in_flight = 0;
    std::int32_t most_in_flight = 0;
    std::int32_t owed_from = 0;  // the W that is owed longest
    std::int32_t owed_to = 0;
    std::int32_t inputs = 0;
    std::int32_t forwards_left = 0;
    std::int32_t last_forward = 0;  // its chunk
    std::int32_t last = kWeight;    // whether F or I came last
    std::size_t owed_at = 0;        // its part of owed_
    std::size_t order_at = 0;       // and its next place in order_
    Ns busy = 0;
    Bytes limit = 0;
    bool has_started() const { return first_start != kNever; }
    bool owes_weight() const { return owed_from < owed_to; }
  };
  /// What a rank could do.
  struct Sight {
    std::int32_t input = kNone;    // the chunk of the I that goes first
    std::int32_t forward = kNone;  // and of the F
    Ns next_input = kNever;        // when the first I is there
    Ns next_forward = kNever;      // the first F with room that is not there yet
    bool memory_holds_back = false;
  };
  /// What it does: an action, or nothing before `until`.
  struct Choice {
    std::int32_t kind = kNone;
    std::int32_t chunk = 0;
    Ns until = kNever;
  };

  /// What stages cost, by chunk, and who gives to whom.
  void add_chunks(const OrderCosts& costs);
  void connect(const OrderCosts& costs, const std::vector<std::int32_t>& chunk_of_stage);
  void prepare_run(const OrderRules& rules, Ns limit);
  void prepare_chunk(Chunk& chunk, std::int32_t number, const OrderRules& rules) const;

  /// With the number of chunks a rank known to the compiler, 0 where it is another one.
  template <std::int32_t Chunks>
  bool place_all();
  template <std::int32_t Chunks>
  std::int32_t last_chunk() const {
    return Chunks > 0 ? Chunks - 1 : chunks_per_rank_ - 1;
  }
  /// Which I, and which F, the rank would run of those that are there, and when the next ones come. An F
  /// counts only within its caps, and one without room is noted apart: a W may make it.
  template <std::int32_t Chunks>
  void see_inputs(const Chunk* chunks, Ns now, Sight& sight) const;
  template <std::int32_t Chunks>
  void see_forwards(const Rank& rank, const Chunk* chunks, Ns now, Sight& sight) const;
  /// The chunk whose F is asked for first.
  template <std::int32_t Chunks>
  std::int32_t first_in_sight(const Rank& rank) const;
  /// Strikes out of sight what the rules want to wait with so that F and I alternate.
  void take_turns(const Rank& rank, const Chunk* chunks, Ns now, Sight& sight) const;
  template <std::int32_t Chunks>
  Choice choose(std::int32_t number, Ns now) const;
  /// The F, unless a more urgent I comes soon; a W, unless an F or I does.
  Choice forward_or_wait(const Rank& rank, const Chunk& chunk, const Sight& sight, Ns now) const;
  Choice weight_or_wait(const Rank& rank, const Sight& sight, Ns now) const;
  Choice owed_weight(const Rank& rank) const;

  /// The rank runs it from `now` on. False: with the rank's pauses so far the order is longer than the limit.
  bool place(std::int32_t number, const Choice& choice, Ns now);
  /// What an F or I that ends then makes possible: the chunk's next one, and that of the stage it sends to.
  void give_forward(std::int32_t number, Ns end);
  void give_input(std::int32_t number, Ns end);
  void deliver_forward(std::int32_t to, std::int32_t microbatch, Ns arrival);
  void deliver_input(std::int32_t to, std::int32_t microbatch, Ns arrival);
  void wake(std::int32_t rank, Ns time);
  /// All is placed; otherwise ranks wait for memory that none of them will free.
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
  std::vector<Ns> forward_arrivals_;  // by chunk and microbatch
  std::vector<Ns> input_arrivals_;
  std::vector<std::int32_t> owed_;   // by rank: the chunks of its I
  std::vector<std::int32_t> order_;  // by rank: what it does, 3 x chunk + kind
  WakeTimes wakings_;
  std::int64_t placed_ = 0;
  std::int64_t placed_before_ = 0;  // this run
};

}  // namespace penstock
