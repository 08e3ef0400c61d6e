// Builds a complete order by rules. Ranks make their decisions in the order of time: when a rank becomes
// free, or when a message arrives. The arrival time is known as soon as the sender starts, so that a rank can
// decide to wait for a message. A free rank chooses in this order:
//
//   1. If an I and an F have arrived, it runs the one that the rules prefer. An F must fit into memory and
//      respect the caps.
//   2. If only one of them has arrived, it runs this one. But it waits if the other is more urgent and
//      arrives soon, as long as the rank's pauses stay within the idle budget.
//   3. If neither has arrived, it runs the oldest owed W, if the gap is long enough. An owed W is a W that
//      has not run although its I has run.
//   4. Otherwise it waits for the next arrival.
//
// Two caps depend on the rank. One cap limits the microbatches in flight. The other limits the lead of a
// chunk: the number of forwards by which it is ahead of the next chunk. Both have the form below, where a
// rank has p - 1 - rank later ranks. An F must leave memory for the F of later chunks. Otherwise early chunks
// could take all memory, and no chunk could continue.
//
//   in flight <= ceil(in_flight + in_flight_per_rank (p - 1 - rank) + more_in_flight[rank])
//
// rule_search.cpp searches for good rules. Tested by search_test.cpp and synthesis_test.cpp.
#include "schedules/search/order_builder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {
namespace {

constexpr std::array<ActionKind, 3> kPassKinds = {ActionKind::forward, ActionKind::backward_input,
                                                  ActionKind::backward_weight};

/// Returns one rank's cap on a number of microbatches: `base`, plus `slope` for each of `steps`, plus the
/// rank's own entry in `more`. The result is limited to 0 to 2^30, because randomly drawn values can be
/// large and the result must fit into 32 bits.
std::int32_t cap(double base, double slope, std::int32_t steps, const std::vector<std::int8_t>& more,
                 std::int32_t rank) {
  const double own = more.empty() ? 0 : more[index(rank)];
  const double bounded = std::clamp(base + slope * steps + own, 0.0, 0x1p30);
  return static_cast<std::int32_t>(std::ceil(bounded));
}

/// Returns the fraction `part` of a number of bytes or nanoseconds, rounded down.
std::int64_t part_of(std::int64_t whole, double part) {
  return static_cast<std::int64_t>(part * static_cast<double>(whole));
}

}  // namespace

OrderBuilder::OrderBuilder(const OrderCosts& costs, Objective objective, std::int32_t microbatches)
    : microbatches_(microbatches),
      chunks_per_rank_(static_cast<std::int32_t>(costs.stages.size() / costs.memory_limit.size())),
      objective_(objective),
      chunks_(costs.stages.size()),
      ranks_(costs.memory_limit.size()),
      forward_arrivals_(costs.stages.size() * index(microbatches), 0),
      input_arrivals_(forward_arrivals_.size(), 0),
      owed_(forward_arrivals_.size(), 0),
      order_(kPassKinds.size() * forward_arrivals_.size(), 0),
      wakings_(static_cast<std::int32_t>(ranks_.size())) {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].limit = costs.memory_limit[rank];
  add_chunks(costs);
}

void OrderBuilder::add_chunks(const OrderCosts& costs) {
  std::vector<std::int32_t> filled(ranks_.size(), 0);
  std::vector<std::int32_t> chunk_of_stage;
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const std::int32_t rank = costs.rank_of[stage];
    chunk_of_stage.push_back(rank * chunks_per_rank_ + filled[index(rank)]++);
    const StageCost& cost = costs.stages[stage];
    Chunk& chunk = chunks_[index(chunk_of_stage.back())];
    chunk.stage = static_cast<std::int32_t>(stage);
    chunk.rank = rank;
    for (std::size_t kind = 0; kind < kPassKinds.size(); ++kind) {
      chunk.durations[kind] = duration_ns(cost, kPassKinds[kind]);
      ranks_[index(rank)].busy += microbatches_ * chunk.durations[kind];
    }
    // F allocates all memory of a microbatch. I releases the part that only the input gradient needs, and W
    // releases the rest.
    chunk.released = {-cost.kept, cost.released_by_input, cost.kept - cost.released_by_input};
  }
  connect(costs, chunk_of_stage);
}

void OrderBuilder::connect(const OrderCosts& costs, const std::vector<std::int32_t>& chunk_of_stage) {
  for (std::size_t stage = 0; stage + 1 < chunk_of_stage.size(); ++stage) {
    Chunk& before = chunks_[index(chunk_of_stage[stage])];
    Chunk& behind = chunks_[index(chunk_of_stage[stage + 1])];
    before.behind = chunk_of_stage[stage + 1];
    behind.before = chunk_of_stage[stage];
    // Stages on the same rank exchange no messages, so the last rank of a V has no transfer between its two
    // stages.
    const Ns delay = before.rank == behind.rank ? 0 : costs.transfer_ns[stage];
    before.forward_delay = delay;
    behind.input_delay = delay;
  }
}

void OrderBuilder::prepare_run(const OrderRules& rules, Ns limit) {
  preference_ = rules.preference;
  forward_choice_ = rules.forward_choice;
  input_choice_ = rules.input_choice;
  lag_ = rules.lag;
  one_forward_a_turn_ = rules.one_forward_a_turn;
  one_input_a_turn_ = rules.one_input_a_turn;
  most_owed_ = rules.most_owed;
  placed_before_ = placed_;
  const auto ranks = static_cast<std::int32_t>(ranks_.size());
  for (std::int32_t number = 0; number < ranks; ++number) {
    const Rank& before = ranks_[index(number)];
    const double budget = rules.idle_budget + rules.idle_budget_per_rank * number;
    // The members that are not named here are set to 0.
    ranks_[index(number)] = {
        .most_idle = limit - before.busy,  // a rank with more pauses ends after the limit
        .budget = static_cast<Ns>(std::clamp(budget, 0.0, 0x1p60)),
        .free_bytes = rules.memory_share < 1 ? part_of(before.limit, rules.memory_share) : before.limit,
        .most_in_flight =
            cap(rules.in_flight, rules.in_flight_per_rank, ranks - 1 - number, rules.more_in_flight, number),
        .forwards_left = microbatches_ * chunks_per_rank_,
        .owed_at = at(number * chunks_per_rank_, 0),
        .order_at = kPassKinds.size() * at(number * chunks_per_rank_, 0),
        .busy = before.busy,
        .limit = before.limit};
    // A rank wakes up only when a message arrives. The rank of the first stage has its inputs from the start.
    wakings_.set(number, kNever);
    for (std::int32_t chunk = 0; chunk < chunks_per_rank_; ++chunk)
      prepare_chunk(chunks_[index(number * chunks_per_rank_ + chunk)], chunk, rules);
  }
  const auto first = std::ranges::find(chunks_, kNone, &Chunk::before);
  wakings_.set(first->rank, 0);
}

void OrderBuilder::prepare_chunk(Chunk& chunk, std::int32_t number, const OrderRules& rules) const {
  const auto ranks = static_cast<std::int32_t>(ranks_.size());
  chunk.next_forward = chunk.before == kNone ? 0 : kNever;
  chunk.next_input = kNever;
  chunk.forwards = 0;
  chunk.inputs = 0;
  // Earlier ranks must send more microbatches before their first I arrives, so their caps are larger.
  chunk.most_lead = cap(rules.lead, rules.lead_per_rank, ranks - 1 - chunk.rank, rules.more_lead, chunk.rank);
  // Early chunks must leave memory for the F of later chunks. If they filled the memory, no later chunk could
  // run an F, and only the I of later chunks would free memory.
  chunk.needed = -chunk.released[kForward];
  for (std::int32_t later = number + 1; later < chunks_per_rank_; ++later) {
    chunk.needed -= rules.reserve * chunks_[index(chunk.rank * chunks_per_rank_ + later)].released[kForward];
  }
  chunk.forward_window = part_of(chunk.durations[kForward], rules.forward_patience);
  chunk.weight_window = part_of(chunk.durations[kWeight], rules.weight_patience);
  chunk.turn_window = part_of(chunk.durations[kForward], rules.turn_window);
}

std::optional<Ns> OrderBuilder::run(const OrderRules& rules, Ns limit) {
  prepare_run(rules, limit);
  // One and two chunks are the usual cases, so the compiler unrolls the loops over a rank's chunks for them.
  const bool within_limit = chunks_per_rank_ == 1   ? place_all<1>()
                            : chunks_per_rank_ == 2 ? place_all<2>()
                                                    : place_all<0>();
  if (!within_limit || !is_complete()) return std::nullopt;
  const Ns reached = length();
  return reached <= limit ? std::optional(reached) : std::nullopt;
}

template <std::int32_t Chunks>
bool OrderBuilder::place_all() {
  while (true) {
    const Waking waking = wakings_.earliest();
    // Either all actions are placed, or ranks wait forever for memory. is_complete() finds out which of the
    // two is the case.
    if (waking.time_ns == WakeTimes::kNever) return true;
    const Choice choice = choose<Chunks>(waking.rank, waking.time_ns);
    if (choice.kind == kNone) {
      // If another message arrives earlier, wake() sets an earlier time.
      wakings_.set(waking.rank, choice.until);
    } else if (!place(waking.rank, choice, waking.time_ns)) {
      return false;
    }
  }
}

template <std::int32_t Chunks>
void OrderBuilder::see_inputs(const Chunk* chunks, Ns now, Sight& sight) const {
  const auto is_there = [&](std::int32_t number) { return chunks[number].next_input <= now; };
  // The loop goes from the last chunk to the first. With `last_first` it takes the first chunk that it finds.
  // With `first_first` it replaces its choice each time it finds another chunk.
  for (std::int32_t number = last_chunk<Chunks>(); number >= 0; --number) {
    sight.next_input = std::min(sight.next_input, chunks[number].next_input);
    if (is_there(number) && (sight.input == kNone || input_choice_ == ChunkChoice::first_first))
      sight.input = number;
  }
  if (Chunks == 1 || input_choice_ != ChunkChoice::by_turns) return;
  // Later chunks come first, unless an earlier chunk has run fewer I by more than the allowed lag.
  while (sight.input > 0 && is_there(sight.input - 1) &&
         chunks[sight.input].inputs - chunks[sight.input - 1].inputs > lag_) {
    --sight.input;
  }
}

template <std::int32_t Chunks>
std::int32_t OrderBuilder::first_in_sight(const Rank& rank) const {
  if (Chunks == 1 || forward_choice_ == ChunkChoice::first_first) return 0;
  if (forward_choice_ == ChunkChoice::last_first) return last_chunk<Chunks>();
  return rank.last_forward == last_chunk<Chunks>() ? 0 : rank.last_forward + 1;
}

template <std::int32_t Chunks>
void OrderBuilder::see_forwards(const Rank& rank, const Chunk* chunks, Ns now, Sight& sight) const {
  const std::int32_t last = last_chunk<Chunks>();
  std::int32_t number = first_in_sight<Chunks>(rank);
  for (std::int32_t seen = 0; seen <= last; ++seen) {
    const Chunk& chunk = chunks[number];
    // If the chunk is too far ahead of the next one, its output would only have to wait at the next one.
    const bool leads = number < last && chunk.forwards - chunks[number + 1].forwards >= chunk.most_lead;
    // The last chunk has no cap, because its F is needed for the I that frees the rank's memory.
    const bool is_capped = (number < last || last == 0) && rank.in_flight >= rank.most_in_flight;
    if (chunk.next_forward != kNever && !leads && !is_capped) {
      const bool has_room = chunk.needed <= rank.free_bytes;
      if (chunk.next_forward > now) {
        if (has_room) sight.next_forward = std::min(sight.next_forward, chunk.next_forward);
      } else if (!has_room) {
        sight.memory_holds_back = true;
      } else if (sight.forward == kNone) {
        sight.forward = number;
      }
    }
    if (forward_choice_ == ChunkChoice::last_first) {
      --number;
    } else {
      number = number == last ? 0 : number + 1;
    }
  }
}

void OrderBuilder::take_turns(const Rank& rank, const Chunk* chunks, Ns now, Sight& sight) const {
  // With one_forward_a_turn_, the rank waits after an F for an I, even if another F has arrived. The rule
  // does not hold before the rank's first I and after its last I.
  if (one_forward_a_turn_ && rank.last == kForward && rank.inputs > 0 && sight.next_input != kNever) {
    sight.forward = kNone;
    sight.next_forward = kNever;
  }
  if (!one_input_a_turn_ || rank.last != kInput || sight.input == kNone || sight.forward != kNone ||
      rank.forwards_left == 0) {
    return;
  }
  // After an I, the rank waits for an F that arrives soon. It also waits if an F has arrived but must first
  // get memory from a W.
  const bool is_due = sight.next_forward != kNever && sight.next_forward - now < chunks[0].turn_window;
  if (!is_due && !(sight.memory_holds_back && rank.owes_weight())) return;
  sight.input = kNone;
  sight.next_input = kNever;
}

template <std::int32_t Chunks>
OrderBuilder::Choice OrderBuilder::choose(std::int32_t number, Ns now) const {
  const Rank& rank = ranks_[index(number)];
  const std::int32_t first = number * (last_chunk<Chunks>() + 1);
  const Chunk* chunks = &chunks_[index(first)];
  Sight sight;
  see_inputs<Chunks>(chunks, now, sight);
  see_forwards<Chunks>(rank, chunks, now, sight);
  if (one_forward_a_turn_ || one_input_a_turn_) take_turns(rank, chunks, now, sight);
  if (sight.input == kNone) {
    if (sight.forward == kNone) return weight_or_wait(rank, sight, now);
    return forward_or_wait(rank, chunks[sight.forward], sight, now);
  }
  const bool forward_is_preferred = preference_ == Preference::forward_first ||
                                    (preference_ == Preference::turn_about && rank.last != kForward);
  if (sight.forward != kNone && forward_is_preferred)
    return {.kind = kForward, .chunk = first + sight.forward};
  // If more than most_owed_ Ws are owed, a W runs first, because it frees memory for the next F.
  if (sight.memory_holds_back && rank.owed_to - rank.owed_from > most_owed_) return owed_weight(rank);
  return {.kind = kInput, .chunk = first + sight.input};
}

OrderBuilder::Choice OrderBuilder::forward_or_wait(const Rank& rank, const Chunk& chunk, const Sight& sight,
                                                   Ns now) const {
  if (sight.next_input != kNever && rank.has_started()) {
    const Ns pause = sight.next_input - now;
    // The previous stage needs the result of an I, but an F only takes memory. So the rank waits for an I
    // that arrives soon, as long as its pauses stay within the budget.
    if (pause < chunk.forward_window && rank.idle + pause <= rank.budget) return {.until = sight.next_input};
  }
  return {.kind = kForward, .chunk = static_cast<std::int32_t>(&chunk - chunks_.data())};
}

OrderBuilder::Choice OrderBuilder::weight_or_wait(const Rank& rank, const Sight& sight, Ns now) const {
  const Ns next = std::min(sight.next_input, sight.next_forward);
  if (!rank.owes_weight()) return {.until = next};
  const Choice weight = owed_weight(rank);
  // Either no message will arrive, or an F that has arrived needs the memory that a W frees.
  if (next == kNever || sight.memory_holds_back) return weight;
  const Ns pause = next - now;
  const bool waits = pause < chunks_[index(weight.chunk)].weight_window && rank.idle + pause <= rank.budget;
  return waits ? Choice{.until = next} : weight;
}

OrderBuilder::Choice OrderBuilder::owed_weight(const Rank& rank) const {
  return {.kind = kWeight, .chunk = owed_[rank.owed_at + index(rank.owed_from)]};
}

bool OrderBuilder::place(std::int32_t number, const Choice& choice, Ns now) {
  Rank& rank = ranks_[index(number)];
  const Chunk& chunk = chunks_[index(choice.chunk)];
  if (rank.has_started()) {
    rank.idle += now - rank.free_at;
  } else {
    rank.first_start = now;
    // The makespan starts at 0, so a late first start costs time like a pause.
    if (objective_ == Objective::makespan) rank.most_idle -= now;
  }
  // The rank's span is at least its work plus its pauses. With more pauses than `most_idle`, the order
  // exceeds the limit.
  if (rank.idle > rank.most_idle) return false;
  rank.free_at = now + chunk.durations[index(choice.kind)];
  rank.free_bytes += chunk.released[index(choice.kind)];
  // The microbatch is not stored. Microbatches of a kind and chunk run in order, so lists() can compute their
  // numbers.
  order_[rank.order_at++] = 3 * choice.chunk + choice.kind;
  ++placed_;
  wakings_.set(number, rank.free_at);
  // A W sends no message, so it wakes no rank. F and I wake the ranks that wait for their output.
  if (choice.kind == kWeight) {
    ++rank.owed_from;
    return true;
  }
  rank.last = choice.kind;
  if (choice.kind == kForward) {
    ++rank.in_flight;
    --rank.forwards_left;
    rank.last_forward = choice.chunk - number * chunks_per_rank_;
    give_forward(choice.chunk, rank.free_at);
  } else {
    --rank.in_flight;
    ++rank.inputs;
    owed_[rank.owed_at + index(rank.owed_to++)] = choice.chunk;
    give_input(choice.chunk, rank.free_at);
  }
  return true;
}

void OrderBuilder::give_forward(std::int32_t number, Ns end) {
  Chunk& chunk = chunks_[index(number)];
  const std::int32_t microbatch = chunk.forwards++;
  const std::int32_t following = microbatch + 1;
  if (following == microbatches_) {
    chunk.next_forward = kNever;
  } else if (chunk.before != kNone) {
    // The previous stage may be several microbatches ahead. If it has not run this microbatch yet, the
    // arrival time is unknown.
    const bool is_known = chunks_[index(chunk.before)].forwards > following;
    chunk.next_forward = is_known ? forward_arrivals_[at(number, following)] : kNever;
  }
  if (chunk.behind == kNone) {
    deliver_input(number, microbatch, end);
  } else {
    deliver_forward(chunk.behind, microbatch, end + chunk.forward_delay);
  }
}

void OrderBuilder::give_input(std::int32_t number, Ns end) {
  Chunk& chunk = chunks_[index(number)];
  const std::int32_t microbatch = chunk.inputs++;
  const std::int32_t following = microbatch + 1;
  // The last stage has no next stage. So the input of its I comes from its own F, not from a message.
  const std::int32_t made = chunk.behind == kNone ? chunk.forwards : chunks_[index(chunk.behind)].inputs;
  chunk.next_input = made > following ? input_arrivals_[at(number, following)] : kNever;
  if (chunk.before != kNone) deliver_input(chunk.before, microbatch, end + chunk.input_delay);
}

void OrderBuilder::deliver_forward(std::int32_t to, std::int32_t microbatch, Ns arrival) {
  forward_arrivals_[at(to, microbatch)] = arrival;
  Chunk& chunk = chunks_[index(to)];
  // Earlier microbatches must run first. give_forward() considers this microbatch after them.
  if (chunk.forwards != microbatch) return;
  chunk.next_forward = arrival;
  wake(chunk.rank, arrival);
}

void OrderBuilder::deliver_input(std::int32_t to, std::int32_t microbatch, Ns arrival) {
  input_arrivals_[at(to, microbatch)] = arrival;
  Chunk& chunk = chunks_[index(to)];
  if (chunk.inputs != microbatch) return;
  chunk.next_input = arrival;
  wake(chunk.rank, arrival);
}

void OrderBuilder::wake(std::int32_t rank, Ns time) {
  // A busy rank looks for work when it becomes free. It then finds all messages that have arrived in the
  // meantime.
  const Ns from = std::max(time, ranks_[index(rank)].free_at);
  if (from < wakings_.of(rank)) wakings_.set(rank, from);
}

Ns OrderBuilder::length() const {
  Ns longest = 0;
  for (const Rank& rank : ranks_) {
    const Ns from = objective_ == Objective::span && rank.has_started() ? rank.first_start : 0;
    longest = std::max(longest, rank.free_at - from);
  }
  return longest;
}

std::vector<std::vector<Action>> OrderBuilder::lists() const {
  std::vector<std::vector<Action>> lists(ranks_.size());
  std::vector<std::array<std::int32_t, 3>> counts(chunks_.size(), {0, 0, 0});
  for (std::int32_t number = 0; number < static_cast<std::int32_t>(ranks_.size()); ++number) {
    const std::size_t from = kPassKinds.size() * at(number * chunks_per_rank_, 0);
    for (std::size_t place = from; place < ranks_[index(number)].order_at; ++place) {
      const std::size_t chunk = index(order_[place]) / kPassKinds.size();
      const std::size_t kind = index(order_[place]) % kPassKinds.size();
      lists[index(number)].push_back(compute(kPassKinds[kind], chunks_[chunk].stage, counts[chunk][kind]++));
    }
  }
  return lists;
}

}  // namespace penstock
