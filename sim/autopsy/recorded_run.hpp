#pragma once
// Turns one recorded step into a run with its graph of causes (sim/why/cause_graph.hpp), so that it can be
// replayed and explained. There are two readings of how ranks wait for messages. The reading that leaves
// less time unexplained is chosen.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "sim/autopsy/recording.hpp"
#include "sim/why/cause_graph.hpp"
#include "sim/why/explain.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The way in which a rank waits for its messages.
enum class Waiting : std::uint8_t {
  ahead,    // an action waits for its own RECVs only
  batched,  // SENDs and RECVs between two actions start together, and the next action waits for all of them
};
template <>
inline constexpr auto kEnumWords<Waiting> =
    std::to_array<EnumWord<Waiting>>({{Waiting::ahead, "ahead"}, {Waiting::batched, "batched"}});

/// One recorded step with the causes of its start times, under one assumption about how ranks wait
/// (Waiting).
struct RecordedRun {
  CausedRun caused{};
  Timeline timeline{};
  /// The total time that the causes do not explain. For each action and message, it is the difference between
  /// the start and the end of the latest cause. The first action of a rank does not count if it has no cause.
  Ns unexplained_ns = 0;
};

/// Returns the lists of compute actions that ran in a step. The program has the routes and the placement
/// that ran.
Program program_of(const Recording& recording, const RecordedStep& step);

/// Returns the channel model in which ranks wait in this way.
ChannelOptions channels_of(Waiting waiting);

/// Builds the run of a step under the assumption `waiting`. `lowered` has the compute lists of the step,
/// lowered for channels_of(waiting). It may have STEPs that were not recorded. Returns nothing if ranks
/// would deadlock under this assumption.
std::optional<RecordedRun> recorded_run(const RecordedStep& step, const Program& lowered, Waiting waiting);

/// The way in which a replay changes the durations and gaps of a recorded step.
using CopyTimes = std::vector<Ns>;
/// Returns the recorded duration of each pipeline copy.
CopyTimes recorded_times(const Recording& recording, const RecordedStep& step);

/// The change of durations and gaps in a replay.
enum class Replayed : std::uint8_t {
  as_recorded,       // each start follows its latest cause by the time that was recorded, or at once
  without_gaps,      // each start follows its latest cause at once
  with_stage_means,  // as without_gaps, and each action takes the mean of its kind and stage on its rank
  with_kind_means,   // as without_gaps, and each action takes the mean of its kind
};
/// Replays the step with changed times, and returns the duration of each pipeline copy.
CopyTimes replayed_times(const Recording& recording, const RecordedRun& run, Replayed how);

}  // namespace penstock
