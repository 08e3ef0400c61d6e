// Follows a preferred order in an event simulation. Ranks look for work when they become free and when a
// message arrives. They do this in the order of time; if times are equal, the lower rank is first. The result
// depends only on the decisions of the ranks, so variants with the same decisions need no separate run.
//
// If there is no W and only the warm-up has a look-ahead, the order cannot change after the warm-up. Then the
// longest span can be computed from the ends so far (OrderTails), and the run stops early.
//
// After the warm-up, ranks usually repeat what they did for the last one or two microbatches. The state of
// the run is then equal to an earlier one, but for a shift of all times by D and of all microbatches by P:
//
//     state at t, microbatch m   ->   state at t + D, microbatch m + P   ->   ... n times   ->   drain
//
// Decisions depend only on differences of times, so the run jumps over as many repetitions as the orders
// have. The states are compared exactly. follow_order.cpp chooses between variants. Tested by
// search_test.cpp.

#include "schedules/search/order_follower.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {
namespace {

/// Returns true if no backward is split into I and W.
bool has_whole_backwards(const OrderSteps& order) {
  return std::ranges::none_of(order.tracks,
                              [](const Track& track) { return track.kind == ActionKind::backward_input; });
}

/// Returns true if each rank stays within its memory limit when it runs its order without changes. Requires
/// that no backward is split, because the function ignores the memory that a W releases.
bool fits_into_memory(const OrderSteps& order) {
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
    Bytes kept = 0;
    for (const Step& step : order.ranks[rank]) {
      kept += order.track_of(step).charged;
      if (kept > order.limits[rank]) return false;
      kept -= order.track_of(step).released;
    }
  }
  return true;
}

}  // namespace

OrderFollower::OrderFollower(const OrderCosts& costs, const PreferredOrder& order)
    : order_(costs, order),
      order_gets_fixed_(has_whole_backwards(order_) && fits_into_memory(order_)),
      ranks_(order.size()),
      arrivals_(order_.place_count(), WakeTimes::kNever),
      inboxes_(order.size()),
      wakings_(static_cast<std::int32_t>(order.size())) {
  // The first stage reads the model's input, which is available from the start.
  std::fill_n(arrivals_.begin(), order_.microbatches, 0);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    ranks_[rank].order = order_.ranks[rank];
    // A W may follow each I.
    ranks_[rank].list.reserve(2 * order_.ranks[rank].size());
  }
  for (std::int32_t giver = 0; giver < static_cast<std::int32_t>(order_.tracks.size()); ++giver) {
    const Track& track = order_.tracks[index(giver)];
    if (track.next == Track::kNone) continue;
    inboxes_[index(track.next_rank)].push_back(
        {.giver = giver, .first_place = track.next * order_.microbatches});
  }
}

void OrderFollower::reset(const std::vector<FollowOptions>& variants) {
  variants_ = variants;
  variant_ = variants.front();
  // All variants count as equal at first. look_farther() finds an action that a variant with a larger
  // look-ahead would have run, and weight_suits() finds a W for which a variant decides differently.
  same_ahead_ = variant_.warm_up_look_ahead;
  for (const FollowOptions& variant : variants)
    same_ahead_ = std::max(same_ahead_, variant.warm_up_look_ahead);
  differs_.assign(variants.size(), false);
  alike_.clear();
  for (std::size_t other = 1; other < variants.size(); ++other) {
    if (sees_as_much(variants[other])) alike_.push_back(other);
  }
  forget_arrivals();
  done_.assign(order_.tracks.size(), 0);
  most_idle_ = 0;
  least_span_ = 0;
  has_finished_ = false;
  remembered_.ranks.clear();
  next_remembered_ = 1;
  watched_ = 0;
  skipped_ = 0;
  unfixed_ranks_ = static_cast<std::int32_t>(ranks_.size());
  for (std::int32_t rank = 0; rank < unfixed_ranks_; ++rank) reset(rank);
}

/// Resets the times at which inputs arrive. A run that stopped early has set only a few of them.
void OrderFollower::forget_arrivals() {
  if (has_finished_) {
    std::fill(arrivals_.begin() + order_.microbatches, arrivals_.end(), WakeTimes::kNever);
    return;
  }
  for (const Rank& rank : ranks_) {
    for (const Step& step : rank.list) {
      const bool tells = step.track >= 0 && order_.track_of(step).next != Track::kNone;
      if (tells) arrivals_[index(order_.taker(step))] = WakeTimes::kNever;
    }
  }
}

void OrderFollower::reset(std::int32_t number) {
  Rank& rank = ranks_[index(number)];
  const std::vector<Step>& preferred = order_.ranks[index(number)];
  // The last run changed the order only before index `bent`, so only this part is restored.
  std::copy_n(preferred.begin(), rank.bent, rank.order.begin());
  rank.list.clear();
  rank.inputs.clear();
  for (Inbox& inbox : inboxes_[index(number)]) inbox.seen = 0;
  // These three vectors are kept, so that they need no new memory in the next run. All other members are
  // reset.
  rank = Rank{.order = std::move(rank.order), .list = std::move(rank.list), .inputs = std::move(rank.inputs)};
  wakings_.set(number, 0);
}

std::optional<Ns> OrderFollower::run(const std::vector<FollowOptions>& variants, Ns limit) {
  reset(variants);
  // The computation of the tails must read the whole order. For a single variant, this takes more time than
  // it saves, unless an earlier run has already computed the tails.
  const bool may_stop = order_gets_fixed_ && variant_.look_ahead == 0 && (tails_ || variants.size() > 1);
  while (wakings_.earliest().time_ns != WakeTimes::kNever) {
    const Waking waking = wakings_.earliest();
    act(waking.rank, waking.time_ns);
    // The span is at least the work plus the pauses so far on one rank. Variants with the same decisions have
    // the same pauses, so they also exceed the limit.
    if (least_span_ >= limit) return std::nullopt;
    if (may_stop && unfixed_ranks_ == 0) break;
    watch_for_repetition(waking.time_ns);
  }
  std::optional<Ns> span = may_stop && unfixed_ranks_ == 0 ? span_in_sight() : std::nullopt;
  if (!span) span = finish();
  return span && *span < limit ? span : std::nullopt;
}

std::optional<Ns> OrderFollower::finish() {
  while (wakings_.earliest().time_ns != WakeTimes::kNever) {
    const Waking waking = wakings_.earliest();
    act(waking.rank, waking.time_ns);
  }
  Ns longest = 0;
  for (std::int32_t number = 0; number < static_cast<std::int32_t>(ranks_.size()); ++number) {
    Rank& rank = ranks_[index(number)];
    if (rank.next < rank.order.size()) return std::nullopt;
    // No action waits for a W, so the remaining Ws run at the end of the rank without gaps.
    while (rank.owes_weight()) place_weight(number, rank.free_at);
    // place_weight() has scheduled another wake-up, but the rank has no work left.
    wakings_.set(number, WakeTimes::kNever);
    longest = std::max(longest, rank.free_at - rank.first_start);
  }
  has_finished_ = true;
  return longest;
}

/// Returns the longest span, computed from the tails, or nothing if ranks would wait for each other
/// forever. A tail says how long the order lasts after an action. Also returns nothing if the tails were
/// computed for ranks that start at other times.
std::optional<Ns> OrderFollower::span_in_sight() {
  std::vector<Ns> first_starts(ranks_.size());
  std::ranges::transform(ranks_, first_starts.begin(), &Rank::first_start);
  if (!tails_) tails_.emplace(order_, first_starts);
  if (tails_->first_starts() != first_starts) return std::nullopt;
  Ns longest = 0;
  bool endless = false;
  const auto start = [&](std::int32_t place, Ns earliest) {
    const Ns tail = tails_->after(place);
    endless |= tail == OrderTails::kEndless;
    if (!endless) longest = std::max(longest, earliest + tail);
  };
  for (const Rank& rank : ranks_) {
    const bool is_done = rank.next == rank.order.size();
    if (!is_done) start(rank.order[rank.next].place, rank.free_at);
    if (is_done) longest = std::max(longest, rank.free_at - rank.first_start);
  }
  // An action may wait for a message that is in transfer. It starts when the message arrives, wherever it is
  // in the list.
  for (std::int32_t giver = 0; giver < static_cast<std::int32_t>(done_.size()); ++giver) {
    const std::int32_t taker = order_.tracks[index(giver)].next;
    if (taker == Track::kNone) continue;
    // A track is all actions of one kind and stage, which run in the order of microbatches. So the outputs of
    // these microbatches have been sent, but the next track has not used them.
    for (std::int32_t m = done_[index(taker)]; m < done_[index(giver)]; ++m) {
      const std::int32_t place = taker * order_.microbatches + m;
      start(place, arrivals_[index(place)]);
    }
  }
  return endless ? std::nullopt : std::optional(longest);
}

void OrderFollower::act(std::int32_t number, Ns now) {
  const Rank& rank = ranks_[index(number)];
  const Sight sight = look(number, now);
  // F, B and I come before any W, because other ranks wait for their output. No action waits for a W.
  if (sight.ready != kNothing) {
    take(number, sight.ready, now);
  } else if (rank.owes_weight() && (sight.needs_memory || sight.next_arrival == WakeTimes::kNever ||
                                    weight_suits(rank, sight.next_arrival - now))) {
    place_weight(number, now);
  } else {
    if (order_gets_fixed_ && rank.warm) look_farther(rank, order_.limits[index(number)], now);
    sleep(number, now);
  }
}

/// Limits same_ahead_, the largest look-ahead that gives the same result as this run. A larger look-ahead
/// would have found an action that this rank can run now.
void OrderFollower::look_farther(const Rank& rank, Bytes limit, Ns now) {
  for (std::int32_t ahead = variant_.warm_up_look_ahead + 1; ahead <= same_ahead_; ++ahead) {
    if (rank.next + index(ahead) >= rank.order.size()) return;
    const Step& step = rank.order[rank.next + index(ahead)];
    const Track& track = order_.track_of(step);
    const bool fits = track.kind != ActionKind::forward || rank.kept + track.charged <= limit;
    if (fits && arrivals_[index(step.place)] <= now) same_ahead_ = ahead - 1;
  }
}

OrderFollower::Sight OrderFollower::look(std::int32_t number, Ns now) const {
  const Rank& rank = ranks_[index(number)];
  const Bytes limit = order_.limits[index(number)];
  const std::int32_t ahead =
      rank.warm ? std::max(variant_.look_ahead, variant_.warm_up_look_ahead) : variant_.look_ahead;
  const std::size_t end = std::min(rank.order.size(), rank.next + index(ahead) + 1);
  Sight sight;
  for (std::size_t at = rank.next; at < end; ++at) {
    // If an input has not been sent yet, its arrival time is unknown. The rank does not wait for such an
    // input.
    const Ns arrival = arrivals_[index(rank.order[at].place)];
    if (arrival == WakeTimes::kNever) continue;
    const Track& track = order_.track_of(rank.order[at]);
    if (track.kind == ActionKind::forward && rank.kept + track.charged > limit) {
      // A W is run to free memory only if an F could run now, and only if all owed Ws together free enough.
      const bool waits = arrival > now || sight.next_arrival != WakeTimes::kNever;
      if (waits || rank.kept - rank.owed + track.charged > limit) continue;
      sight.needs_memory = true;
      return sight;
    }
    if (arrival <= now) {
      sight.ready = at;
      return sight;
    }
    sight.next_arrival = std::min(sight.next_arrival, arrival);
  }
  return sight;
}

bool OrderFollower::suits(const FollowOptions& variant, const Rank& rank, Ns gap) {
  const Ns duration = order_.track_of(rank.inputs[rank.weights]).weight_ns;
  // The product could exceed 64 bits, so it is computed in two parts.
  const Ns quarters = duration / 4 * variant.weight_quarters + duration % 4 * variant.weight_quarters / 4;
  if (gap >= quarters || !variant.overrun) return gap >= quarters;
  has_compared_idle_ = true;
  return rank.idle + gap > most_idle_;
}

bool OrderFollower::weight_suits(const Rank& rank, Ns gap) {
  const bool decision = suits(variant_, rank, gap);
  // Variants that have made the same decisions so far share one run. A variant that decides differently here
  // needs a separate run.
  std::erase_if(alike_, [&](std::size_t other) {
    if (suits(variants_[other], rank, gap) == decision) return false;
    differs_[other] = true;
    return true;
  });
  return decision;
}

void OrderFollower::take(std::int32_t number, std::size_t at, Ns now) {
  Rank& rank = ranks_[index(number)];
  // A rank is fixed when the rest of its order cannot change. When all ranks are fixed, the result is
  // computed from the tails.
  const bool was_fixed = rank.is_fixed();
  if (at > rank.next) {
    const auto place = [&](std::size_t of) { return rank.order.begin() + static_cast<std::ptrdiff_t>(of); };
    // The order changes: the actions that were skipped come next.
    std::rotate(place(rank.next), place(at), place(at + 1));
    rank.bent = std::max(rank.bent, at + 1);
  }
  const Step step = rank.order[rank.next++];
  const Track& track = order_.track_of(step);
  rank.list.push_back(step);
  rank.kept += track.charged - track.released;
  rank.warm &= track.kind == ActionKind::forward;
  if (track.kind == ActionKind::backward_input) {
    rank.inputs.push_back(step);
    rank.owed += track.owed;
  }
  unfixed_ranks_ -= !was_fixed && rank.is_fixed() ? 1 : 0;
  ++done_[index(step.track)];
  start(number, now, track.duration);
  // The arrival time is published when the sender starts, so that the receiver can plan until the arrival.
  if (track.next == Track::kNone) return;
  const Ns arrival = rank.free_at + track.delay;
  arrivals_[index(order_.taker(step))] = arrival;
  announce(track.next_rank, arrival);
}

void OrderFollower::place_weight(std::int32_t number, Ns now) {
  Rank& rank = ranks_[index(number)];
  const Step input = rank.inputs[rank.weights++];
  const Track& track = order_.track_of(input);
  // A negative track marks a W. Track 0 belongs to an F, which has no W, so a negated number is never 0.
  rank.list.push_back({.track = -input.track, .place = input.place});
  rank.kept -= track.owed;
  rank.owed -= track.owed;
  start(number, now, track.weight_ns);
}

void OrderFollower::start(std::int32_t number, Ns now, Ns duration) {
  Rank& rank = ranks_[index(number)];
  if (rank.has_started) {
    rank.idle += now - rank.free_at;
    most_idle_ = std::max(most_idle_, rank.idle);
    // The span of a rank is at least the sum of its work and its pauses so far.
    least_span_ = std::max(least_span_, order_.busy_ns[index(number)] + rank.idle);
  } else {
    rank.has_started = true;
    rank.first_start = now;
  }
  rank.free_at = now + duration;
  wakings_.set(number, rank.free_at);
}

/// Wakes rank `number` when its message arrives. If the rank is busy then, it looks for work when it
/// becomes free.
void OrderFollower::announce(std::int32_t number, Ns arrival) {
  const Ns wakes = wakings_.of(number);
  const bool is_busy = wakes == ranks_[index(number)].free_at;
  if (!is_busy && arrival < wakes) wakings_.set(number, arrival);
}

void OrderFollower::sleep(std::int32_t number, Ns now) {
  Ns next = WakeTimes::kNever;
  for (Inbox& inbox : inboxes_[index(number)]) {
    // The rank has considered all messages that have arrived, but none of their actions can run now. It
    // considers them again at its next wake-up.
    const std::int32_t sent = done_[index(inbox.giver)];
    const Ns* arrivals = &arrivals_[index(inbox.first_place)];
    while (inbox.seen < sent && arrivals[inbox.seen] <= now) ++inbox.seen;
    if (inbox.seen < sent) next = std::min(next, arrivals[inbox.seen]);
  }
  wakings_.set(number, next);
}

namespace {

/// Appends copies of the steps from index `from` on, `times` times. Each copy has later microbatches than the
/// one before, by `period`.
void repeat_steps(std::vector<Step>& steps, std::size_t from, std::int32_t period, std::int32_t times) {
  const std::size_t count = steps.size() - from;
  steps.reserve(steps.size() + count * index(times));
  for (std::size_t i = 0; i < count * index(times); ++i) {
    const Step step = steps[steps.size() - count];
    steps.push_back({.track = step.track, .place = step.place + period});
  }
}

bool is_later(const Step& step, const Step& earlier, std::int32_t period) {
  return step.track == earlier.track && step.place == earlier.place + period;
}

}  // namespace

void OrderFollower::watch_for_repetition(Ns now) {
  // The last track has the backwards of the last stage, which are the first backwards of each microbatch.
  const std::int32_t done = done_.back();
  if (done == watched_ || skipped_ > 0) return;
  watched_ = done;
  const std::int32_t period = remembered_.ranks.empty() ? 0 : done - remembered_.done.back();
  if (period > 0 && is_repetition(now)) {
    const std::int32_t times = possible_repetitions(period);
    if (times > 0) jump(period, now - remembered_.time, times);
  }
  // The moments that are remembered are more and more apart, so that a longer period is found as well.
  if (done < next_remembered_) return;
  remember(now);
  next_remembered_ = done + done / 4 + 1;
}

void OrderFollower::remember(Ns now) {
  remembered_.time = now;
  remembered_.done = done_;
  remembered_.ranks.resize(ranks_.size());
  for (std::size_t number = 0; number < ranks_.size(); ++number) {
    const Rank& rank = ranks_[number];
    RankThen& then = remembered_.ranks[number];
    const auto next = rank.order.begin() + static_cast<std::ptrdiff_t>(rank.next);
    then = {
        .bent_steps = {next, next + static_cast<std::ptrdiff_t>(std::max(rank.bent, rank.next) - rank.next)},
        .next = rank.next,
        .list_size = rank.list.size(),
        .inputs_size = rank.inputs.size(),
        .weights = rank.weights,
        .free_at = rank.free_at,
        .wakes_at = wakings_.of(static_cast<std::int32_t>(number)),
        .idle = rank.idle,
        .kept = rank.kept,
        .owed = rank.owed};
  }
  has_compared_idle_ = false;
}

bool OrderFollower::is_repetition(Ns now) const {
  if (has_compared_idle_) return false;
  const std::int32_t period = done_.back() - remembered_.done.back();
  const Ns later = now - remembered_.time;
  for (std::size_t track = 0; track < done_.size(); ++track) {
    if (done_[track] != remembered_.done[track] + period) return false;
  }
  for (std::size_t number = 0; number < ranks_.size(); ++number) {
    const RankThen& then = remembered_.ranks[number];
    const Ns wakes_at = wakings_.of(static_cast<std::int32_t>(number));
    const bool wakes_alike = then.wakes_at == WakeTimes::kNever ? wakes_at == WakeTimes::kNever
                                                                : wakes_at == then.wakes_at + later;
    if (!wakes_alike || ranks_[number].free_at != then.free_at + later) return false;
    if (!repeats_rank(ranks_[number], then, period)) return false;
  }
  for (std::int32_t giver = 0; giver < static_cast<std::int32_t>(done_.size()); ++giver) {
    if (!repeats_messages(giver, later, period)) return false;
  }
  return true;
}

bool OrderFollower::repeats_rank(const Rank& rank, const RankThen& then, std::int32_t period) const {
  if (rank.warm || rank.kept != then.kept || rank.owed != then.owed) return false;
  const std::size_t bent = std::max(rank.bent, rank.next) - rank.next;
  const std::size_t owed = rank.inputs.size() - rank.weights;
  if (bent != then.bent_steps.size() || owed != then.inputs_size - then.weights) return false;
  for (std::size_t i = 0; i < bent; ++i) {
    if (!is_later(rank.order[rank.next + i], then.bent_steps[i], period)) return false;
  }
  for (std::size_t i = 0; i < owed; ++i) {
    if (!is_later(rank.inputs[rank.weights + i], rank.inputs[then.weights + i], period)) return false;
  }
  return true;
}

/// Compares the messages that the track `giver` has sent and the next track has not used yet. Returns true
/// if each arrives `later` than the message of the microbatch `period` before it.
bool OrderFollower::repeats_messages(std::int32_t giver, Ns later, std::int32_t period) const {
  const std::int32_t taker = order_.tracks[index(giver)].next;
  if (taker == Track::kNone) return true;
  for (std::int32_t m = done_[index(taker)]; m < done_[index(giver)]; ++m) {
    const std::size_t place = index(taker * order_.microbatches + m);
    if (arrivals_[place] != arrivals_[place - index(period)] + later) return false;
  }
  return true;
}

std::int32_t OrderFollower::possible_repetitions(std::int32_t period) const {
  const std::size_t ahead = index(std::max(variant_.look_ahead, variant_.warm_up_look_ahead));
  std::size_t times = index(order_.microbatches);
  for (std::size_t number = 0; number < ranks_.size(); ++number) {
    const Rank& rank = ranks_[number];
    const RankThen& then = remembered_.ranks[number];
    const std::size_t steps = rank.next - then.next;
    if (steps == 0) return 0;
    // The order must continue in the same way up to the last step that the rank sees in the repetitions. The
    // comparison begins behind the steps that have changed places.
    const std::vector<Step>& order = order_.ranks[number];
    std::size_t end = std::max(rank.bent, rank.next);
    while (end < order.size() && is_later(order[end], order[end - steps], period)) ++end;
    if (end < rank.next + ahead + 1) return 0;
    times = std::min(times, (end - rank.next - ahead - 1) / steps);
  }
  return static_cast<std::int32_t>(times);
}

/// Sets the state to the one after `times` more repetitions of the steps since the remembered moment.
void OrderFollower::jump(std::int32_t period, Ns duration, std::int32_t times) {
  const std::int32_t microbatches = period * times;
  const Ns later = duration * times;
  skipped_ = microbatches;
  for (std::int32_t giver = 0; giver < static_cast<std::int32_t>(done_.size()); ++giver) {
    const std::int32_t taker = order_.tracks[index(giver)].next;
    if (taker == Track::kNone) continue;
    // Goes from the last message to the first, because the new places may overlap with the old ones.
    for (std::int32_t m = done_[index(giver)]; m-- > done_[index(taker)];) {
      const std::size_t place = index(taker * order_.microbatches + m);
      arrivals_[place + index(microbatches)] = arrivals_[place] + later;
    }
  }
  for (std::int32_t& done : done_) done += microbatches;
  for (std::int32_t number = 0; number < static_cast<std::int32_t>(ranks_.size()); ++number) {
    Rank& rank = ranks_[index(number)];
    const RankThen& then = remembered_.ranks[index(number)];
    const std::size_t steps = (rank.next - then.next) * index(times);
    const std::size_t bent = std::max(rank.bent, rank.next) - rank.next;
    for (std::size_t i = bent; i-- > 0;) {
      const Step step = rank.order[rank.next + i];
      rank.order[rank.next + steps + i] = {.track = step.track, .place = step.place + microbatches};
    }
    rank.next += steps;
    if (bent > 0) rank.bent = rank.next + bent;
    repeat_steps(rank.list, then.list_size, period, times);
    rank.weights += (rank.weights - then.weights) * index(times);
    repeat_steps(rank.inputs, then.inputs_size, period, times);
    rank.free_at += later;
    rank.idle += (rank.idle - then.idle) * times;
    most_idle_ = std::max(most_idle_, rank.idle);
    least_span_ = std::max(least_span_, order_.busy_ns[index(number)] + rank.idle);
    const Ns wakes_at = wakings_.of(number);
    if (wakes_at != WakeTimes::kNever) wakings_.set(number, wakes_at + later);
    // All messages that were used in the repetitions had arrived.
    for (Inbox& inbox : inboxes_[index(number)])
      inbox.seen = std::max(inbox.seen, done_[index(order_.tracks[index(inbox.giver)].next)]);
  }
}

bool OrderFollower::sees_as_much(const FollowOptions& variant) const {
  if (variant.look_ahead != variant_.look_ahead) return false;
  // The variants can now differ only in the look-ahead of the warm-up. A larger look-ahead gives the same
  // result if it would not have found another action.
  if (variant.warm_up_look_ahead == variant_.warm_up_look_ahead) return true;
  return order_gets_fixed_ && variant.look_ahead == 0 &&
         variant.warm_up_look_ahead > variant_.warm_up_look_ahead &&
         variant.warm_up_look_ahead <= same_ahead_;
}

std::vector<FollowOptions> OrderFollower::other_variants() const {
  std::vector<FollowOptions> others;
  for (std::size_t variant = 0; variant < variants_.size(); ++variant) {
    if (differs_[variant] || !sees_as_much(variants_[variant])) others.push_back(variants_[variant]);
  }
  return others;
}

std::vector<std::vector<Action>> OrderFollower::lists() const {
  std::vector<std::vector<Action>> lists;
  for (const Rank& rank : ranks_) {
    std::vector<Action>& list = lists.emplace_back();
    list.reserve(rank.list.size() + rank.order.size() - rank.next);
    for (const Step& step : rank.list) {
      list.push_back(step.track < 0 ? order_.action({-step.track, step.place}, ActionKind::backward_weight)
                                    : order_.action(step, order_.track_of(step).kind));
    }
    // If the run stopped early, the rest of the list follows the preferred order.
    for (std::size_t at = rank.next; at < rank.order.size(); ++at) {
      list.push_back(order_.action(rank.order[at], order_.track_of(rank.order[at]).kind));
    }
  }
  return lists;
}

}  // namespace penstock
