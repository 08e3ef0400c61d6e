// One rank's spans hold all that is needed: messages are among them, from their start to their arrival. Idle
// time before an action, with two messages that it waits for:
//
//   rank      |--- F2 ---|                         |-- launch --|--- B0 ---|
//   UNSHARD              |--|
//   RECV_B0                      |-- on its way ---|
//             idle since ^                         ^ ready      ^ start
//             transfer   |--|    |-----------------|              covered by something that it waits for
//             waiting       |----|                                nothing is on its way yet
//
// RECVs are found by a table of stage and unit, in which each remembers the one before it, since branches
// give a stage several inputs of one microbatch. The last collective of a kind and stage stands for all
// before it.

#include "report/timeline/arrivals.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

constexpr std::size_t index_of(Flow flow) { return static_cast<std::size_t>(flow); }

/// A recomputation waits for its gradient only where the program says so, which spans do not tell. One that
/// had not arrived was not waited for.
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
  // The union of intervals: transfers that overlap must not be counted twice.
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

void Arrivals::add(const Span& span) {
  const Action& action = span.action;
  if (is_recv(action.kind)) {
    // In front of those of other edges into the same stage.
    auto& newest = newest_.at(action.stage, action.microbatch)[index_of(flow_of(action.kind))];
    received_.push_back({.span = &span, .before = newest});
    newest = static_cast<std::int32_t>(received_.size()) - 1;
  }
  if (is_collective(action.kind)) collectives_[{action.kind, action.stage}] = &span;
}

/// Adds what this leaf waits for: its collective, where its kind needs one, and all RECVs of its input.
void Arrivals::gather(const Action& leaf) {
  if (!collectives_.empty()) {
    // Where a B does not wait for the reduction before it, a STEP has done so already.
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
  return waited_;
}

std::vector<IdleBefore> idle_before_actions(Spans spans) {
  Arrivals arrivals(RecomputeTiming::late);
  std::vector<IdleBefore> idle;
  Ns idle_since = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    // Added in list order: what stands behind the action in the list it cannot have waited for.
    arrivals.add(spans[i]);
    if (!opens_compute(spans, i)) continue;
    const Ns start = spans[i].start_ns;
    IdleBefore before{.position = i};
    if (start > idle_since) {
      const std::span<const Span*> waited = without_later(arrivals.of_group(spans, i), spans[i]);
      Ns ready = idle_since;
      // Idle time in three parts: until the last thing it needs starts to move, while it moves, and from its
      // arrival to the start, which only a measured run has.
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

}  // namespace penstock
