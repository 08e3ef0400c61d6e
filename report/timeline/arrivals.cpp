// One rank's spans hold all that is needed: messages are among them, from their start to their arrival.

#include "report/timeline/arrivals.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

std::uint64_t key_of(const Action& action, Flow flow) {
  const auto number = static_cast<std::uint32_t>(action.stage * 2 + static_cast<std::int32_t>(flow));
  return std::uint64_t{number} << 32U | static_cast<std::uint32_t>(action.microbatch);
}

/// A recomputation waits for its gradient only where the program says so, which spans do not tell. One that
/// had not arrived was not waited for.
void drop_later(std::vector<const Span*>& waited, const Span& action) {
  if (action.action.kind != ActionKind::recompute) return;
  std::erase_if(waited, [&](const Span* span) { return span->end_ns > action.start_ns; });
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

bool opens_compute(Spans spans, std::size_t i) {
  return is_compute(spans[i].action.kind) && (i == 0 || !spans[i - 1].action.overlaps_next);
}

Ns covered_ns(std::vector<const Span*> spans, Ns from, Ns to) {
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
  if (is_recv(span.action.kind)) {
    transfers_[key_of(span.action, flow_of(span.action.kind))].push_back(&span);
  }
  if (is_collective(span.action.kind)) collectives_[{span.action.kind, span.action.stage}] = &span;
}

std::vector<const Span*> Arrivals::of(const Action& leaf) const {
  std::vector<const Span*> found;
  if (const auto collective = collective_before(leaf.kind)) {
    const auto group = collectives_.find({*collective, leaf.stage});
    if (group != collectives_.end()) found.push_back(group->second);
  }
  if (const auto flow = input_of(leaf.kind, recompute_)) {
    const auto list = transfers_.find(key_of(leaf, *flow));
    if (list != transfers_.end()) found.insert(found.end(), list->second.begin(), list->second.end());
  }
  return found;
}

std::vector<const Span*> Arrivals::of_group(Spans spans, std::size_t i) const {
  std::vector<const Span*> waited = of(spans[i].action);
  for (std::size_t leaf = i; spans[leaf].action.overlaps_next; ++leaf) {
    const std::vector<const Span*> more = of(spans[leaf + 1].action);
    waited.insert(waited.end(), more.begin(), more.end());
  }
  return waited;
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
      std::vector<const Span*> waited = arrivals.of_group(spans, i);
      drop_later(waited, spans[i]);
      Ns ready = idle_since;
      // Idle time in three parts: until the last thing it needs starts to move, while it moves, and from its
      // arrival to the start, which only a measured run has.
      for (const Span* span : waited) ready = std::max(ready, std::min(span->end_ns, start));
      before.launch_ns = start - ready;
      before.transfer_ns = covered_ns(std::move(waited), idle_since, ready);
      before.waiting_ns = ready - idle_since - before.transfer_ns;
    }
    idle.push_back(before);
    idle_since = std::max(idle_since, spans[i].end_ns);
  }
  return idle;
}

}  // namespace penstock
