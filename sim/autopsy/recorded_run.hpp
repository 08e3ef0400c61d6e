#pragma once
// Turns one recorded step into a run with its graph of causes (sim/why/cause_graph.hpp), which can be
// replayed and explained. There are two readings of how ranks wait for messages; the reading that leaves less
// time unexplained is the run's own.

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

/// How a rank waits for its messages.
enum class Waiting : std::uint8_t {
  ahead,    // an action waits for its own RECVs only
  batched,  // SENDs and RECVs between two actions start together, and the next action waits for all of them
};
template <>
inline constexpr auto kEnumWords<Waiting> =
    std::to_array<EnumWord<Waiting>>({{Waiting::ahead, "ahead"}, {Waiting::batched, "batched"}});

/// One step in one reading.
struct RecordedRun {
  CausedRun caused{};
  Timeline timeline{};
  /// The sum of the times by which actions and messages started later or earlier than the latest of the
  /// things that they waited for. The first action of a rank does not count if it waited for nothing.
  Ns unexplained_ns = 0;
};

/// Returns the lists of a step without messages. Routes and placement are those that ran.
Program program_of(const Recording& recording, const RecordedStep& step);

/// Returns the channels of a reading.
ChannelOptions channels_of(Waiting waiting);

/// Builds the run of a step. `lowered` has the compute lists of the step, lowered for the channels of the
/// reading, and may have STEPs that were not recorded. Returns nothing if ranks would wait for each other for
/// ever in this reading.
std::optional<RecordedRun> recorded_run(const RecordedStep& step, const Program& lowered, Waiting waiting);

/// The time of each copy of the pipeline, from the first start to the last end of its compute actions.
using CopyTimes = std::vector<Ns>;
/// Returns the times that were recorded.
CopyTimes recorded_times(const Recording& recording, const RecordedStep& step);

/// A change of costs before a replay.
enum class Replayed : std::uint8_t {
  as_recorded,       // each start follows its latest cause by the time that was recorded, or at once
  without_gaps,      // each start follows its latest cause at once
  with_stage_means,  // as without_gaps, and each action takes the mean of its kind and stage on its rank
  with_kind_means,   // as without_gaps, and each action takes the mean of its kind
};
/// Runs the graph again and returns the times of the copies.
CopyTimes replayed_times(const Recording& recording, const RecordedRun& run, Replayed how);

}  // namespace penstock
