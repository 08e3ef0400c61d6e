#pragma once
// Extracts from one run of a calibration program the durations of actions, the launches, and the hops between
// ranks. Used by calibration.hpp.

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

/// A message that its receiver was waiting for.
struct Hop {
  std::int32_t from_rank = 0;
  std::int32_t to_rank = 0;
  Bytes bytes = 0;
  /// Time from the end of the sending action to the start of the action that needed the message.
  Ns time_ns = 0;
};

struct CalibrationSamples {
  std::map<StageKind, std::vector<Ns>> durations;
  std::map<std::int32_t, std::vector<Ns>>
      launches;  ///< by stage: time between one action's end and the next one's start
  std::vector<Hop> hops;
};

/// The microbatches [first, last) that count, and as many STEPs.
struct CountedMicrobatches {
  std::int32_t first = 0;
  std::int32_t last = 0;
};

/// Returns the samples of `timeline`, which must be a run of `experiment`.
CalibrationSamples samples_of(const Timeline& timeline, const Experiment& experiment,
                              const CountedMicrobatches& counted);

}  // namespace penstock
