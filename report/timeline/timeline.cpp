#include "report/timeline/timeline.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

namespace {

// Marks a stage for which the replica has not been looked up yet. The value must not be -1, which means that
// the rank holds no replica of the stage.
constexpr std::int32_t kUnknown = -2;

}  // namespace

RankSpans::RankSpans(const FlatProgram& flat, const Placement& placement, const ProgramTimes& times)
    : flat_(flat), placement_(placement), times_(times) {}

std::int32_t RankSpans::replica_of(std::int32_t stage, std::int32_t rank) {
  std::int32_t& known = replicas_[index(stage)];
  if (known == kUnknown) known = placement_.replica_on(stage, rank);
  return known;
}

std::span<const Span> RankSpans::of(std::int32_t rank) {
  replicas_.assign(placement_.stages.size(), kUnknown);
  spans_.clear();
  const std::size_t end = index(flat_.rank_begin[index(rank) + 1]);
  for (std::size_t p = index(flat_.rank_begin[index(rank)]); p < end; ++p) {
    if (flat_.ops[p] == FlatOp::barrier) continue;
    const Action& action = flat_.actions[p];
    // The action of a SEND, RECV or collective gets the times of its message. They are equal on all ranks
    // that take part.
    const bool moves = flat_.message[p] != kNone;
    const std::size_t at = moves ? index(flat_.message[p]) : p;
    spans_.push_back({.rank = rank,
                      .action = action,
                      .replica = replica_of(action.stage, rank),
                      .start_ns = (moves ? times_.message_start : times_.start)[at],
                      .end_ns = (moves ? times_.message_end : times_.end)[at]});
  }
  return spans_;
}

Timeline timeline_of(const FlatProgram& flat, const Placement& placement, const ProgramTimes& times) {
  Timeline timeline{.rank_count = flat.rank_count, .spans = {}};
  timeline.spans.reserve(flat.ops.size());
  RankSpans spans(flat, placement, times);
  for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) {
    const std::span<const Span> of_rank = spans.of(rank);
    timeline.spans.insert(timeline.spans.end(), of_rank.begin(), of_rank.end());
    for (const Span& span : of_rank) timeline.makespan_ns = std::max(timeline.makespan_ns, span.end_ns);
  }
  return timeline;
}

}  // namespace penstock
