#pragma once
// Functions that make spans from the times of a walked or executed flat program: for one rank at a time, if
// only figures are computed from them, or for all ranks as a Timeline.

#include <cstdint>
#include <span>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// A reader of the spans of single ranks. It uses the memory of one rank for all of them.
class RankSpans {
 public:
  /// `placement` gives the replica of a span. All arguments must outlive the object.
  RankSpans(const FlatProgram& flat, const Placement& placement, const ProgramTimes& times);

  /// Returns the spans of a rank in program order, without barriers. The result is valid until the next call.
  std::span<const Span> of(std::int32_t rank);

 private:
  std::int32_t replica_of(std::int32_t stage, std::int32_t rank);

  const FlatProgram& flat_;
  const Placement& placement_;
  const ProgramTimes& times_;
  // by stage, for the current rank; kUnknown until asked for
  std::vector<std::int32_t> replicas_;
  std::vector<Span> spans_;
};

/// Returns the spans of all ranks.
Timeline timeline_of(const FlatProgram& flat, const Placement& placement, const ProgramTimes& times);

}  // namespace penstock
