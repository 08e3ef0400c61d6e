#pragma once
// The time at which each action of each rank ran, predicted or measured. Every engine produces a timeline,
// and metrics.hpp and all exporters read it.

#include <cstdint>
#include <span>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The value of Span::released_ns if the action sends no message, or if the time is not known.
inline constexpr Ns kNotReleased = -1;

/// The start and end of one action on one rank. The two actions of an overlapped pair have equal times. The
/// span of a SEND or RECV lasts from the start of its transfer to the arrival.
struct Span {
  std::int32_t rank = 0;
  /// The action. Microbatch numbers and weight versions continue from one iteration to the next.
  Action action;
  /// The number of the replica that this rank holds of the action's stage.
  std::int32_t replica = 0;
  Ns start_ns = 0;
  Ns end_ns = 0;
  /// The time at which the message of a SEND has left its channel, so that the next message can start. It
  /// is kNotReleased for all other actions, and in measurements.
  Ns released_ns = kNotReleased;

  friend bool operator==(const Span&, const Span&) = default;
};

/// The spans of all ranks. They are sorted by rank, and on each rank in program order. The first action
/// starts at 0, so the makespan is the last end of any action.
struct Timeline {
  std::int32_t rank_count = 0;
  Ns makespan_ns = 0;
  std::vector<Span> spans;

  friend bool operator==(const Timeline&, const Timeline&) = default;
};

// Makes spans from the times of a simulated or executed flat program. RankSpans makes them for one rank at a
// time, which is enough to compute figures. timeline_of() makes them for all ranks.

/// A builder that makes the spans of one rank at a time. It uses the same memory for every rank.
class RankSpans {
 public:
  /// Prepares the builder. `placement` says which replica of a stage a rank holds. All arguments must
  /// outlive the object.
  RankSpans(const FlatProgram& flat, const Placement& placement, const ProgramTimes& times);

  /// Returns the spans of a rank in program order, without barriers. The result is valid until the next call.
  std::span<const Span> of(std::int32_t rank);

 private:
  std::int32_t replica_of(std::int32_t stage, std::int32_t rank);

  const FlatProgram& flat_;
  const Placement& placement_;
  const ProgramTimes& times_;
  // The replica of each stage on the current rank; kUnknown until it is looked up.
  std::vector<std::int32_t> replicas_;
  std::vector<Span> spans_;
};

/// Returns the spans of all ranks as one timeline.
Timeline timeline_of(const FlatProgram& flat, const Placement& placement, const ProgramTimes& times);

}  // namespace penstock
