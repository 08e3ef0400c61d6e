#pragma once
// Extracts from one run of a calibration program the durations of actions, the times between actions, and the
// times of messages. Used by calibration.hpp.

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

struct StageKind {
  std::int32_t stage = 0;
  ActionKind kind = ActionKind::forward;

  friend auto operator<=>(const StageKind&, const StageKind&) = default;
};

/// A message for which an idle receiver was waiting.
struct Hop {
  std::int32_t from_rank = 0;
  std::int32_t to_rank = 0;
  Bytes bytes = 0;
  /// The time from the end of the action that made the message to the start of the action that needed it.
  Ns time_ns = 0;
};

struct CalibrationSamples {
  std::map<StageKind, std::vector<Ns>> durations;
  std::map<std::int32_t, std::vector<Ns>>
      /// Launch times by stage: the time from the end of one action to the start of the next one on an
      /// otherwise idle rank.
      launches;
  std::vector<Hop> hops;
};

/// The microbatches [first, last) that are measured. STEPs with numbers in the same range are also measured.
struct CountedMicrobatches {
  std::int32_t first = 0;
  std::int32_t last = 0;
};

/// Returns the samples of `timeline`. Requires that it is the timeline of a run of `experiment`.
CalibrationSamples samples_of(const Timeline& timeline, const Experiment& experiment,
                              const CountedMicrobatches& counted);

}  // namespace penstock
