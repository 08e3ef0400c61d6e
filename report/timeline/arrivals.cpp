// Divides a rank's idle time before each compute action into transfer, waiting and launch. The rank's spans
// include its messages, each from its start to its arrival, so no other data is needed. In this example B0
// waits for two messages:
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
// order, so storing the last one is enough. Tests: arrivals_test.cpp.

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

/// Returns `waited` without the messages that arrived after a recomputation had started. Programs differ in
/// whether a recomputation waits for its gradient, and spans do not show it. A message that arrived later
/// proves that the recomputation did not wait.
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
  // The sum runs over the union of the intervals, so that overlapping transfers are not counted twice.
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
    // RECVs of other edges into the same stage may precede this one. The new RECV becomes the head of their
    // list.
    auto& newest = newest_.at(action.stage, action.microbatch)[index_of(flow_of(action.kind))];
    received_.push_back({.span = &span, .before = newest});
    newest = static_cast<std::int32_t>(received_.size()) - 1;
  }
  if (is_collective(action.kind)) collectives_[{action.kind, action.stage}] = &span;
}

void Arrivals::gather(const Action& leaf) {
  if (!collectives_.empty()) {
    // With sharding 3, a B waits for the reduction before it. With smaller values the result is the same,
    // because a STEP in between has waited for that reduction.
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
    // Spans are added in list order. The action cannot have waited for a message that comes later in the
    // list.
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

}  // namespace penstock
