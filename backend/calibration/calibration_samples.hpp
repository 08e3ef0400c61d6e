#pragma once
// What one run of a calibration program tells: durations of actions, launches and hops between ranks. Used by
// calibration.hpp.

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

/// A message that the rank that got it was waiting for.
struct Hop {
  std::int32_t from_rank = 0;
  std::int32_t to_rank = 0;
  Bytes bytes = 0;
  Ns time_ns = 0;  ///< from the end of the action that sent it to the start of the one that needed it
};

struct CalibrationSamples {
  std::map<StageKind, std::vector<Ns>> durations;
  std::map<std::int32_t, std::vector<Ns>>
      launches;  ///< by stage: from one action's end to the next one's start
  std::vector<Hop> hops;
};

/// Microbatches [first, last) count, and as many STEPs.
struct CountedMicrobatches {
  std::int32_t first = 0;
  std::int32_t last = 0;
};

/// What `timeline` shows of running `experiment`.
CalibrationSamples samples_of(const Timeline& timeline, const Experiment& experiment,
                              const CountedMicrobatches& counted);

}  // namespace penstock
