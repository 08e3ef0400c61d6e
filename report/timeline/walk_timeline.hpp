#pragma once
// From the times of a walked (or really executed) flat program to spans: those of one rank after the other
// where figures are read off them, all in a Timeline where somebody wants to see them.

#include <cstdint>
#include <span>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The spans of single ranks, in room that is used again for the next rank.
class RankSpans {
 public:
  /// `placement` says which replica a span belongs to. All must outlive the spans.
  RankSpans(const FlatProgram& flat, const Placement& placement, const ProgramTimes& times);

  /// Those of all positions but barriers, in program order. Good until the next call.
  std::span<const Span> of(std::int32_t rank);

 private:
  std::int32_t replica_of(std::int32_t stage, std::int32_t rank);

  const FlatProgram& flat_;
  const Placement& placement_;
  const ProgramTimes& times_;
  std::vector<std::int32_t> replicas_;  // by stage, of the rank at hand, as far as asked for
  std::vector<Span> spans_;
};

/// The spans of all ranks.
Timeline timeline_of(const FlatProgram& flat, const Placement& placement, const ProgramTimes& times);

}  // namespace penstock
