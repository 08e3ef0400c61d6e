#pragma once
// Makes spans from the times of a simulated or executed flat program. RankSpans makes them for one rank at a
// time, which is enough to compute figures. timeline_of() makes them for all ranks.

#include <cstdint>
#include <span>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// A builder of the spans of one rank at a time. It uses the same memory for every rank.
class RankSpans {
 public:
  /// `placement` says which replica of a stage a rank holds. All arguments must outlive the object.
  RankSpans(const FlatProgram& flat, const Placement& placement, const ProgramTimes& times);

  /// Returns the spans of a rank in program order, without barriers. The result is valid until the next call.
  std::span<const Span> of(std::int32_t rank);

 private:
  std::int32_t replica_of(std::int32_t stage, std::int32_t rank);

  const FlatProgram& flat_;
  const Placement& placement_;
  const ProgramTimes& times_;
  // the replica of each stage on the current rank; kUnknown until it is looked up
  std::vector<std::int32_t> replicas_;
  std::vector<Span> spans_;
};

/// Returns the spans of all ranks as one timeline.
Timeline timeline_of(const FlatProgram& flat, const Placement& placement, const ProgramTimes& times);

}  // namespace penstock
