// Ranks are woken when they become free and when a message arrives; earlier times first, then lower ranks.
// What happens follows from the decisions alone: ways that would have made the same ones need no run of their
// own. And where only the warm-up looks ahead and no W is owed, the order is fixed behind the warm-up, so
// that the ends so far tell the longest span (order_tails.hpp).

#include "schedules/search/order_follower.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/search/follow_order.hpp"
#include "schedules/search/order_steps.hpp"
#include "schedules/search/order_tails.hpp"
#include "schedules/search/timed_lists.hpp"
#include "schedules/search/wake_times.hpp"

namespace penstock {
namespace {

/// Whether no stage splits its backward, so that no rank ever owes a W.
bool has_whole_backwards(const OrderSteps& order) {
  return std::ranges::none_of(order.tracks,
                              [](const Track& track) { return track.kind == ActionKind::backward_input; });
}

/// Whether each rank stays within its limit when it runs its order as it stands. Requires whole backwards:
/// what a W would release is not looked at.
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
      settles_(has_whole_backwards(order_) && fits_into_memory(order_)),
      ranks_(order.size()),
      arrivals_(order_.place_count(), WakeTimes::kNever),
      wakings_(static_cast<std::int32_t>(order.size())) {
  // The inputs of the first stage's F: the model's own.
  std::fill_n(arrivals_.begin(), order_.microbatches, 0);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    ranks_[rank].order = order_.ranks[rank];
    // Each I may be followed by its W.
    ranks_[rank].list.reserve(2 * order_.ranks[rank].size());
  }
}

void OrderFollower::reset(const std::vector<FollowOptions>& ways) {
  ways_ = ways;
  way_ = ways.front();
  // Every way is taken to be alike until look_farther() finds an action that it would have taken, or
  // weight_suits() a W that it would have placed.
  same_ahead_ = way_.warm_up_look_ahead;
  for (const FollowOptions& way : ways) same_ahead_ = std::max(same_ahead_, way.warm_up_look_ahead);
  differs_.assign(ways.size(), false);
  alike_.clear();
  for (std::size_t other = 1; other < ways.size(); ++other) {
    if (sees_as_much(ways[other])) alike_.push_back(other);
  }
  forget_arrivals();
  done_.assign(order_.tracks.size(), 0);
  most_idle_ = 0;
  least_span_ = 0;
  has_finished_ = false;
  unsettled_ = static_cast<std::int32_t>(ranks_.size());
  for (std::int32_t rank = 0; rank < unsettled_; ++rank) reset(rank);
}

/// A run that was given up has told of few.
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
  // Behind `bent` the last run has left the order as it was.
  std::copy_n(preferred.begin(), rank.bent, rank.order.begin());
  rank.list.clear();
  rank.inputs.clear();
  rank.arrivals.clear();
  // Everything else begins anew, and the vectors keep their memory for the next run.
  rank = Rank{.order = std::move(rank.order),
              .list = std::move(rank.list),
              .inputs = std::move(rank.inputs),
              .arrivals = std::move(rank.arrivals)};
  wakings_.set(number, 0);
}

std::optional<Ns> OrderFollower::run(const std::vector<FollowOptions>& ways, Ns limit) {
  reset(ways);
  // Tails cost a pass over the order: for one way alone they pay only where another run has made them.
  const bool may_stop = settles_ && way_.look_ahead == 0 && (tails_ || ways.size() > 1);
  while (wakings_.earliest().time_ns != WakeTimes::kNever) {
    const Waking waking = wakings_.earliest();
    act(waking.rank, waking.time_ns);
    // Work plus pauses of one rank so far: it can only become longer.
    // Ways that have decided alike so far are given up with it: they would come to no less.
    if (least_span_ >= limit) return std::nullopt;
    if (may_stop && unsettled_ == 0) break;
  }
  std::optional<Ns> span = may_stop && unsettled_ == 0 ? span_in_sight() : std::nullopt;
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
    // Nothing waits for a W: those left over fill the end of the rank, back to back.
    while (rank.owes_weight()) place_weight(number, rank.free_at);
    // Placing the W asked for another look at its end; there is nothing left to look for.
    wakings_.set(number, WakeTimes::kNever);
    longest = std::max(longest, rank.free_at - rank.first_start);
  }
  has_finished_ = true;
  return longest;
}

/// Nothing when the tails are those of other first starts, or of an order that would jam.
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
  // Messages under way start what waits for them, wherever in its list that stands.
  for (std::int32_t giver = 0; giver < static_cast<std::int32_t>(done_.size()); ++giver) {
    const std::int32_t taker = order_.tracks[index(giver)].next;
    if (taker == Track::kNone) continue;
    // Microbatches of a track run in order: these have been sent and not been taken yet.
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
  // F and B or I come before any W: others wait for what they send, and nobody waits for a W.
  if (sight.ready != kNothing) {
    take(number, sight.ready, now);
  } else if (rank.owes_weight() && (sight.needs_memory || sight.next_arrival == WakeTimes::kNever ||
                                    weight_suits(rank, sight.next_arrival - now))) {
    place_weight(number, now);
  } else {
    if (settles_ && rank.warm) look_farther(rank, order_.limits[index(number)], now);
    sleep(number, now);
  }
}

/// Notes the nearest action that a way which looks farther ahead would have taken.
void OrderFollower::look_farther(const Rank& rank, Bytes limit, Ns now) {
  for (std::int32_t ahead = way_.warm_up_look_ahead + 1; ahead <= same_ahead_; ++ahead) {
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
  const std::int32_t ahead = rank.warm ? std::max(way_.look_ahead, way_.warm_up_look_ahead) : way_.look_ahead;
  const std::size_t end = std::min(rank.order.size(), rank.next + index(ahead) + 1);
  Sight sight;
  for (std::size_t at = rank.next; at < end; ++at) {
    // What nobody has sent yet has no known arrival, and is not waited for.
    const Ns arrival = arrivals_[index(rank.order[at].place)];
    if (arrival == WakeTimes::kNever) continue;
    const Track& track = order_.track_of(rank.order[at]);
    if (track.kind == ActionKind::forward && rank.kept + track.charged > limit) {
      // Only an F that could run this moment is worth a W for its memory, and only if all owed W free
      // enough.
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

bool OrderFollower::suits(const FollowOptions& way, const Rank& rank, Ns gap) const {
  const Ns duration = order_.track_of(rank.inputs[rank.weights]).weight_ns;
  // In two parts, since the product may go beyond 64 bits.
  const Ns quarters = duration / 4 * way.weight_quarters + duration % 4 * way.weight_quarters / 4;
  return gap >= quarters || (way.overrun && rank.idle + gap > most_idle_);
}

bool OrderFollower::weight_suits(const Rank& rank, Ns gap) {
  const bool decision = suits(way_, rank, gap);
  // Ways that have decided alike so far are one run; those that part here need a run of their own.
  std::erase_if(alike_, [&](std::size_t other) {
    if (suits(ways_[other], rank, gap) == decision) return false;
    differs_[other] = true;
    return true;
  });
  return decision;
}

void OrderFollower::take(std::int32_t number, std::size_t at, Ns now) {
  Rank& rank = ranks_[index(number)];
  // A rank is settled when its own order holds from here on; when all are, the tails speak for the rest.
  const bool was_settled = rank.is_settled();
  if (at > rank.next) {
    const auto place = [&](std::size_t of) { return rank.order.begin() + static_cast<std::ptrdiff_t>(of); };
    // The preferred order bends: what was passed over stays next.
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
  unsettled_ -= !was_settled && rank.is_settled() ? 1 : 0;
  ++done_[index(step.track)];
  start(number, now, track.duration);
  // Known from the start of its sender on, so that the taker can weigh what it does until it comes.
  if (track.next == Track::kNone) return;
  const Ns arrival = rank.free_at + track.delay;
  arrivals_[index(order_.taker(step))] = arrival;
  tell(track.next_rank, arrival);
}

void OrderFollower::place_weight(std::int32_t number, Ns now) {
  Rank& rank = ranks_[index(number)];
  const Step input = rank.inputs[rank.weights++];
  const Track& track = order_.track_of(input);
  // The sign marks a W. Track 0 is an F and has none, so that no track is its own negative.
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
    // The rank has all its work and these pauses in its span, whatever comes.
    least_span_ = std::max(least_span_, order_.busy_ns[index(number)] + rank.idle);
  } else {
    rank.has_started = true;
    rank.first_start = now;
  }
  rank.free_at = now + duration;
  wakings_.set(number, rank.free_at);
}

/// A message that comes while the rank is busy wakes nobody: the rank looks for work when it becomes free.
void OrderFollower::tell(std::int32_t number, Ns arrival) {
  Rank& rank = ranks_[index(number)];
  const Ns wakes = wakings_.of(number);
  const bool is_busy = wakes == rank.free_at;
  if (is_busy && arrival <= wakes) return;
  rank.arrivals.push_back(arrival);
  std::ranges::push_heap(rank.arrivals, std::greater<>{});
  if (!is_busy && arrival < wakes) wakings_.set(number, arrival);
}

void OrderFollower::sleep(std::int32_t number, Ns now) {
  std::vector<Ns>& arrivals = ranks_[index(number)].arrivals;
  // Messages that are there have been looked at: nothing of theirs could run, and they are looked at again
  // with whatever comes next.
  while (!arrivals.empty() && arrivals.front() <= now) {
    std::ranges::pop_heap(arrivals, std::greater<>{});
    arrivals.pop_back();
  }
  wakings_.set(number, arrivals.empty() ? WakeTimes::kNever : arrivals.front());
}

bool OrderFollower::sees_as_much(const FollowOptions& way) const {
  if (way.look_ahead != way_.look_ahead) return false;
  // From here on ways differ in the warm-up alone: one that looks farther is the same way where nothing
  // farther off was ready to be taken.
  if (way.warm_up_look_ahead == way_.warm_up_look_ahead) return true;
  return settles_ && way.look_ahead == 0 && way.warm_up_look_ahead > way_.warm_up_look_ahead &&
         way.warm_up_look_ahead <= same_ahead_;
}

std::vector<FollowOptions> OrderFollower::other_ways() const {
  std::vector<FollowOptions> others;
  for (std::size_t way = 0; way < ways_.size(); ++way) {
    if (differs_[way] || !sees_as_much(ways_[way])) others.push_back(ways_[way]);
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
    // A run that stopped when all was settled: the rest is in the preferred order.
    for (std::size_t at = rank.next; at < rank.order.size(); ++at) {
      list.push_back(order_.action(rank.order[at], order_.track_of(rank.order[at]).kind));
    }
  }
  return lists;
}

}  // namespace penstock
