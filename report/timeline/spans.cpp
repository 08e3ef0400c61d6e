// Divides the idle time before each compute action of a rank into transfer, waiting and launch. The rank's
// spans include its messages, each from its start to its arrival, so no other data are needed. In this
// example B0 waits for two messages:
//
//   rank      |--- F2 ---|                         |-- launch --|--- B0 ---|
//   UNSHARD              |--|
//   RECV_B0                      |-- under way ----|
//             idle since ^                         ^ ready      ^ start
//             transfer   |--|    |-----------------|              a message is under way
//             waiting       |----|                                no message is under way yet
//
// A table by stage and unit finds the RECVs of an action. In a branching graph, a stage has several inputs
// for one microbatch, so each RECV refers to the previous one. Collectives of one kind and stage run in
// order, so only the last one is stored. Tests: tests/report/metrics_test.cpp.
#include "report/timeline/spans.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

constexpr std::size_t index_of(Flow flow) { return static_cast<std::size_t>(flow); }

/// Returns the messages for which `action` may have waited. If `action` is a recomputation, leaves out the
/// messages that arrived after its start. In some programs a recomputation waits for its gradient, and in
/// others it does not. The spans do not show which case applies, but the recomputation cannot have waited for
/// a later message.
std::span<const Span*> without_later(std::span<const Span*> waited, const Span& action) {
  if (action.action.kind != ActionKind::recompute) return waited;
  const auto later =
      std::ranges::remove_if(waited, [&](const Span* span) { return span->end_ns > action.start_ns; });
  return waited.first(waited.size() - later.size());
}

}  // namespace

std::vector<Spans> spans_by_rank(const Timeline& timeline) {
  std::vector<Spans> ranks;
  std::size_t begin = 0;
  for (std::int32_t rank = 0; rank < timeline.rank_count; ++rank) {
    std::size_t end = begin;
    while (end < timeline.spans.size() && timeline.spans[end].rank == rank) ++end;
    ranks.push_back(Spans(timeline.spans).subspan(begin, end - begin));
    begin = end;
  }
  return ranks;
}

Ns covered_ns(std::span<const Span*> spans, Ns from, Ns to) {
  // The function measures the union of the intervals, so that overlapping transfers are not counted twice.
  std::ranges::sort(spans, {}, &Span::start_ns);
  Ns covered = 0;
  for (const Span* span : spans) {
    const Ns start = std::max(from, span->start_ns);
    const Ns end = std::min(to, span->end_ns);
    if (end <= start) continue;
    covered += end - start;
    from = end;
  }
  return covered;
}

Arrivals::Arrivals(RecomputeTiming recompute, Spans spans)
    : recompute_(recompute),
      has_waits_(std::ranges::any_of(spans, [](const Span& span) { return is_wait(span.action.kind); })) {}

void Arrivals::add(const Span& span) {
  const Action& action = span.action;
  if (has_waits_) add_wait(span);
  const bool reloads = action.kind == ActionKind::reload;
  if (is_recv(action.kind) || reloads) {
    // A stage may receive data for one microbatch over several edges. Therefore all RECVs of one stage,
    // microbatch and direction form a linked list, and the new RECV becomes its head. A RELOAD is in the list
    // of the gradients, because the B or I that receives the gradient also waits for the RELOAD.
    const Flow flow = reloads ? Flow::gradient : flow_of(action.kind);
    auto& newest = newest_.at(action.stage, action.microbatch)[index_of(flow)];
    received_.push_back({.span = &span, .before = newest});
    newest = static_cast<std::int32_t>(received_.size()) - 1;
  }
  if (is_collective(action.kind)) collectives_[{action.kind, action.stage}] = &span;
}

/// Stores a SEND for later WAITs. For a WAIT, stores the messages that it waits for.
void Arrivals::add_wait(const Span& span) {
  const Action& action = span.action;
  if (is_send(action.kind)) sent_[{action.kind, action.stage, action.microbatch}].push_back(&span);
  if (!is_wait(action.kind)) return;
  if (action.kind == ActionKind::wait_reduce_grad) {
    const auto reduction = collectives_.find({ActionKind::reduce_grad, action.stage});
    if (reduction != collectives_.end()) passed_.push_back(reduction->second);
    return;
  }
  const auto sends = sent_.find({awaited_kind(action.kind), action.stage, action.microbatch});
  if (sends == sent_.end()) return;
  passed_.insert(passed_.end(), sends->second.begin(), sends->second.end());
}

void Arrivals::gather(const Action& leaf) {
  if (!collectives_.empty()) {
    // The degree of sharding is not known here, so 3 is assumed. With sharding 3, a B waits for the reduction
    // before it. With smaller degrees the result does not change, because a STEP between the reduction and
    // the B has already waited for the reduction.
    constexpr std::int32_t kSharding = 3;
    for (const ActionKind awaited : collectives_before(leaf.kind, kSharding)) {
      const auto group = collectives_.find({awaited, leaf.stage});
      if (group != collectives_.end()) waited_.push_back(group->second);
    }
  }
  const auto flow = input_of(leaf.kind, recompute_);
  if (!flow) return;
  std::int32_t received = newest_.at(leaf.stage, leaf.microbatch)[index_of(*flow)];
  for (; received >= 0; received = received_[index(received)].before)
    waited_.push_back(received_[index(received)].span);
}

std::span<const Span*> Arrivals::of_group(Spans spans, std::size_t i) {
  waited_.clear();
  gather(spans[i].action);
  for (std::size_t leaf = i; spans[leaf].action.overlaps_next; ++leaf) gather(spans[leaf + 1].action);
  waited_.insert(waited_.end(), passed_.begin(), passed_.end());
  passed_.clear();
  return waited_;
}

std::vector<IdleBefore> idle_before_actions(Spans spans) {
  Arrivals arrivals(RecomputeTiming::late, spans);
  std::vector<IdleBefore> idle;
  Ns idle_since = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    // Spans are added in list order, so that messages later in the list are not found. The action cannot have
    // waited for them.
    arrivals.add(spans[i]);
    if (!opens_compute(spans, i)) continue;
    const Ns start = spans[i].start_ns;
    IdleBefore before{.position = i};
    if (start > idle_since) {
      const std::span<const Span*> waited = without_later(arrivals.of_group(spans, i), spans[i]);
      Ns ready = idle_since;
      // The idle time has three parts: before the last transfer starts, during it, and from its arrival to
      // the action. Only measured runs have the third part.
      for (const Span* span : waited) ready = std::max(ready, std::min(span->end_ns, start));
      before.launch_ns = start - ready;
      before.transfer_ns = covered_ns(waited, idle_since, ready);
      before.waiting_ns = ready - idle_since - before.transfer_ns;
    }
    idle.push_back(before);
    idle_since = std::max(idle_since, spans[i].end_ns);
  }
  return idle;
}

// Orders the changes of a rank's holdings, from which every peak is computed. A holding has two changes: a
// charge when it begins and a release when it ends. At one moment, releases come before charges, so that a
// buffer that one action passes to the next is not counted twice. Program order decides between all other
// changes. So the result does not depend on the order of the input.
//
// Holdings are listed in program order. Therefore the charges of one kind are nearly sorted, and so are the
// releases:
//
//   charges of kind 0 | releases of kind 0 | charges of kind 1 | ...     few long ascending runs
//
// Neighbouring runs are merged until one run remains. This takes O(n log runs), which is never more than a
// full sort (R. Sedgewick and K. Wayne, Algorithms, 4th edition, 2011, section 2.2: natural merge sort).
// Tests: metrics_test.cpp.

namespace {

/// A change of an amount that the rank holds, together with its sort key.
struct Keyed {
  Ns time_ns = 0;
  // The order among changes at the same time (see place_of()).
  std::uint64_t place = 0;
  std::uint32_t holding = 0;

  friend auto operator<=>(const Keyed&, const Keyed&) = default;
};

// The order of changes at one position. The value 0 is the release of an amount that an earlier action
// charged, and 1 is a charge. The value 2 is the release of an amount that the action itself charged.
constexpr std::uint64_t kCharge = 1;

/// Returns a number that orders the changes at the same time. The number consists of the phase (bit 40),
/// position + 1, and the order at the position (2 bits). Phase 0 has the releases of amounts that were
/// charged at an earlier time. Phase 1 has all other changes, by position. Each position first releases
/// older amounts, then charges its own amounts, and then releases those.
std::uint64_t place_of(bool is_late_release, std::int32_t position, std::uint64_t order) {
  const std::uint64_t phase = is_late_release ? 0 : 1;
  return phase << 40U | static_cast<std::uint64_t>(std::int64_t{position} + 1) << 2U | order;
}

Keyed charge_of(const Holding& held, std::uint32_t number) {
  return {held.from_ns, place_of(false, held.charged_by, kCharge), number};
}

Keyed release_of(const Holding& held, std::uint32_t number) {
  const bool own = held.charged_by == held.released_by;
  return {held.until_ns, place_of(held.until_ns != held.from_ns, held.released_by, own ? 2 : 0), number};
}

/// Returns all charges and releases of `holdings`, grouped by kind. Each group has the charges of a kind,
/// followed by its releases.
std::vector<Keyed> changes_by_kind(std::span<const Holding> holdings) {
  // For each kind of holding, the indices in the result of its next charge and of its next release.
  std::vector<std::size_t> next;
  const auto counter = [&](const Holding& held, std::size_t release) -> std::size_t& {
    const std::size_t lane = 2 * static_cast<std::size_t>(held.kind) + release;
    if (lane >= next.size()) next.resize(lane + 1, 0);
    return next[lane];
  };
  for (const Holding& held : holdings) {
    ++counter(held, 0);
    counter(held, 1) += held.until_ns == kHeldForEver ? 0 : 1;
  }
  std::size_t total = 0;
  // Each count becomes the first index of its group.
  for (std::size_t& count : next) total += std::exchange(count, total);
  std::vector<Keyed> keys(total);
  for (std::uint32_t number = 0; number < holdings.size(); ++number) {
    const Holding& held = holdings[number];
    keys[counter(held, 0)++] = charge_of(held, number);
    if (held.until_ns != kHeldForEver) keys[counter(held, 1)++] = release_of(held, number);
  }
  return keys;
}

/// Returns the first index of each run of ascending keys, and the number of keys as the last element.
std::vector<std::size_t> runs_of_keys(const std::vector<Keyed>& keys) {
  std::vector<std::size_t> begins{0};
  for (std::size_t i = 1; i < keys.size(); ++i) {
    if (keys[i] < keys[i - 1]) begins.push_back(i);
  }
  begins.push_back(keys.size());
  return begins;
}

/// Sorts the keys by merging neighbouring ascending runs in pairs until one run remains. A last run without
/// a partner is copied.
void sort_by_runs(std::vector<Keyed>& keys) {
  std::vector<std::size_t> begins = runs_of_keys(keys);
  std::vector<Keyed> merged(begins.size() > 2 ? keys.size() : 0);
  while (begins.size() > 2) {
    const auto place = [&](std::size_t run) {
      return keys.begin() + static_cast<std::ptrdiff_t>(begins[std::min(run, begins.size() - 1)]);
    };
    std::vector<std::size_t> joined;
    auto to = merged.begin();
    for (std::size_t run = 0; run + 1 < begins.size(); run += 2) {
      joined.push_back(begins[run]);
      to = std::merge(place(run), place(run + 1), place(run + 1), place(run + 2), to);
    }
    joined.push_back(keys.size());
    begins = std::move(joined);
    keys.swap(merged);
  }
}

}  // namespace

std::vector<HoldingChange> changes_in_order(std::span<const Holding> holdings) {
  std::vector<Keyed> keys = changes_by_kind(holdings);
  sort_by_runs(keys);
  std::vector<HoldingChange> changes;
  changes.reserve(keys.size());
  for (const Keyed& key : keys) {
    changes.push_back({.time_ns = key.time_ns,
                       .holding = static_cast<std::int32_t>(key.holding),
                       .charge = (key.place & 3U) == kCharge});
  }
  return changes;
}

std::int64_t peak_amount(std::span<const Holding> holdings) {
  std::vector<Keyed> keys = changes_by_kind(holdings);
  sort_by_runs(keys);
  std::int64_t held = 0;
  std::int64_t peak = 0;
  for (const Keyed& key : keys) {
    const std::int64_t amount = holdings[key.holding].amount;
    held += (key.place & 3U) == kCharge ? amount : -amount;
    peak = std::max(peak, held);
  }
  return peak;
}

HostStays host_stays(Spans spans) {
  HostStays stays;
  const auto is_copy = [](const Span& span) { return is_host_copy(span.action.kind); };
  if (std::ranges::none_of(spans, is_copy)) return stays;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Action& action = spans[i].action;
    if (!is_copy(spans[i])) continue;
    HostStay& stay = stays[{action.stage, action.microbatch}];
    (action.kind == ActionKind::offload ? stay.released_by : stay.reload) = static_cast<std::int32_t>(i);
  }
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Action& action = spans[i].action;
    if (action.kind != ActionKind::send_forward) continue;
    const auto stay = stays.find({action.stage, action.microbatch});
    if (stay == stays.end() || stay->second.released_by < 0) continue;
    if (spans[i].end_ns > spans[index(stay->second.released_by)].end_ns)
      stay->second.released_by = static_cast<std::int32_t>(i);
  }
  return stays;
}

}  // namespace penstock
