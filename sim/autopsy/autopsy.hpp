#pragma once
// Turns one recorded step into a run with its graph of causes (sim/why/account.hpp), so that it can be
// replayed and explained. The way in which ranks waited for messages is not recorded. So the run is built
// under each of two assumptions (Waiting). The assumption that leaves less time unexplained is chosen.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "report/print/table.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "sim/autopsy/recording.hpp"
#include "sim/autopsy/trace_formats.hpp"
#include "sim/why/account.hpp"
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
  /// The total time that the causes do not explain. For each action and message, it is the distance between
  /// its own start and the end of its latest cause. The first action of a rank does not count if it has no
  /// cause.
  Ns unexplained_ns = 0;
};

/// Returns the lists of compute actions that ran in a step. The program has the routes and the placement
/// that ran.
Program program_of(const Recording& recording, const RecordedStep& step);

/// Returns the options of the channel model in which ranks wait as `waiting` says.
ChannelOptions channels_of(Waiting waiting);

/// Builds the run of a step under the assumption `waiting`. `lowered` has the compute lists of the step,
/// lowered for channels_of(waiting). It may have STEPs that were not recorded. Returns nothing if ranks
/// would deadlock under this assumption.
std::optional<RecordedRun> recorded_run(const RecordedStep& step, const Program& lowered, Waiting waiting);

/// The duration of each pipeline copy in one step, in the order of the copies.
using CopyTimes = std::vector<Ns>;
/// Returns the recorded duration of each pipeline copy.
CopyTimes recorded_times(const Recording& recording, const RecordedStep& step);

/// The way in which a replay changes the durations of actions and the gaps before them. A gap is the time
/// from the end of an action's latest cause to its start.
enum class Replayed : std::uint8_t {
  as_recorded,       // each start keeps its recorded gap
  without_gaps,      // all gaps are 0
  with_stage_means,  // no gaps; each action takes the mean duration of its kind and stage on its rank
  with_kind_means,   // no gaps; each action takes the mean duration of its kind
};
/// Replays the step with the durations and gaps that `how` states. Returns the duration of each pipeline
/// copy.
CopyTimes replayed_times(const Recording& recording, const RecordedRun& run, Replayed how);

// Analyses a recorded run. It finds which program ran, and if the user expected this program. It finds how
// ranks waited, the costs of actions, and why ranks were idle. It also finds the rank or stage that lost most
// time.

/// The program that the user expected to run on one copy of the pipeline.
struct MeantProgram {
  std::string name;              ///< name of the schedule, or of the file
  Program program;               ///< compute lists of one copy
  std::optional<Shape> shape{};  ///< the shape of a schedule that has a name; absent for a file
};

/// The first action of a rank at which the recorded list differs from the expected program.
struct ListDifference {
  RankName rank;
  std::int32_t position = 0;  ///< number among the rank's compute actions, from 0
  std::string ran;            ///< empty if the list ends there
  std::string meant;          ///< empty if the expected list ends there
  Ns start_ns = 0;            ///< start of the action that ran, or the end of the list
};

/// The comparison of one pipeline copy in one step with the expected program, and its measured and replayed
/// times.
struct StepVerdict {
  std::int64_t step = 0;
  std::int64_t copy = 0;
  std::optional<bool> as_meant{};  ///< absent if the user named no program
  std::vector<ListDifference> differences{};
  Ns measured_ns = 0;
  Ns replayed_ns = 0;
  Ns without_gaps_ns = 0;
  Ns stage_means_ns = 0;
};

/// A stage, rank or action that makes the run longer, with the time that it adds to the makespan.
struct Blame {
  IdleCause cause = IdleCause::variation;
  std::int64_t step = 0;  ///< the step of a single action; otherwise the step that is explained
  /// The rank to blame. For a slow stage, it is the rank that holds the stage, if there is only one in a
  /// copy.
  std::optional<RankName> rank{};
  bool in_all_copies = false;  ///< true if this rank is to blame in every copy of the pipeline
  std::optional<std::int32_t> stage{};
  std::optional<std::int32_t> microbatch{};
  std::string action{};  ///< a single action that took longer than others of its kind, or started later
  Ns ns = 0;             ///< part of the makespan; a mean over the steps, or of the action's own step
  std::optional<Ns> without_ns{};  ///< makespan of the explained step without this time
  std::string detail{};            ///< for example "F 2.50, B 2.27 times its copies"
};

struct AutopsyOptions {
  std::optional<MeantProgram> meant{};
  /// True if the scenario has the mean duration for each stage and copy, not every recorded duration.
  bool means = false;
  std::int32_t samples = 32;
};

struct Autopsy {
  std::string name{};      ///< the names of the recorded files
  std::string schedule{};  ///< name of the schedule that has the recorded lists; empty if there is none
  bool was_meant = false;  ///< true if the user named the expected program
  Recording recording{};
  std::vector<StepVerdict> steps{};
  Waiting waiting = Waiting::ahead;
  Ns unexplained_ns = 0;  ///< unexplained time of the explained step, under the chosen assumption (Waiting)
  /// Unexplained time under the other assumption; absent if the run contradicts it.
  std::optional<Ns> other_unexplained_ns{};
  /// Measured time divided by the time of a replay in which all actions of one kind take the mean.
  double slowdown = 1;
  std::int64_t explained_step = 0;
  Explanation why{};  ///< explanation of the step with the median makespan
  std::vector<Blame> blame{};
  Program program{};       ///< lists of the explained step, without messages
  Result result{};         ///< measured result of the explained step, with its timeline
  std::string scenario{};  ///< text of a scenario with the recorded costs
  std::vector<std::string> notes{};

  bool as_meant() const;
};

/// Analyses a recording: the program that ran, the waits, the costs, and the causes of idle time. Returns
/// an error if the lists cannot have run in their order.
tl::expected<Autopsy, std::string> autopsy_of(Recording recording, std::string name,
                                              const AutopsyOptions& options);

/// Returns the known schedule that generates the lists of the first pipeline copy in the first step. Returns
/// nothing if no schedule generates them.
std::optional<MeantProgram> recognised_schedule(const Recording& recording);

/// Returns the stages, ranks and actions that make the run longer, with the largest part of the makespan
/// first. `explained` is the index in `runs` of the step that is explained.
std::vector<Blame> blame_of(const Recording& recording, const std::vector<RecordedRun>& runs,
                            std::size_t explained, std::int32_t samples);

/// Returns the text of a scenario with the recorded costs. If no known schedule has the recorded lists, the
/// scenario refers to `program_file`, the name of the file with these lists. If `means` is true, each
/// duration is replaced by the mean of its kind on its stage and in its copy of the pipeline.
std::string recorded_scenario(const Autopsy& autopsy, const std::vector<RecordedRun>& runs,
                              const std::optional<MeantProgram>& schedule, bool means);

/// Returns the autopsy as text. `width` is the greatest length of a table's line in characters; 0 means no
/// limit.
std::string autopsy_to_text(const Autopsy& autopsy, std::size_t width = 0);
/// Returns the autopsy as an HTML page: what ran, what is to blame, all steps, and the explained step with
/// its causes and its timeline.
std::string autopsy_to_html(const Autopsy& autopsy);
/// Writes the measured result as JSON, with the additional keys of the autopsy.
void write_autopsy_json(const Autopsy& autopsy, const TextSink& sink);

/// The file name of the recorded lists in the scenario of an autopsy. The code that writes the scenario
/// replaces it by the real name.
inline constexpr const char* kListsFile = "recorded.psched";

// Describes a recording that lacks some ranks.

/// The times of one rank, as means over its steps, and its list. Messages are left out.
struct PartialRank {
  std::int64_t rank = 0;
  std::set<std::int32_t> stages{};
  std::int64_t steps = 0;
  Ns busy_ns = 0;                                     ///< time in forward and backward passes
  Ns idle_ns = 0;                                     ///< time between passes of the same step
  std::vector<std::pair<std::string, Ns>> medians{};  ///< median duration of each kind of pass
  Ns longest_wait_ns = 0;
  std::string before{};            ///< the pass after the longest wait; empty if the rank never waits
  std::optional<bool> as_meant{};  ///< absent if the user named no program, or if the program lacks this rank
  std::string difference{};        ///< the first difference from the expected list; empty if there is none
};

struct PartialRecord {
  std::int64_t world_size = 0;  ///< number of ranks of the job; 0 if the files do not state it
  std::vector<PartialRank> ranks{};
  std::vector<std::int64_t> missing_ranks{};  ///< empty if the number of ranks is not known
  std::vector<std::int64_t> missing_stages{};
};

/// Returns true if ranks are missing from the rows. This is the case if no rank runs a stage that the rows
/// name, or if only one of several ranks has rows. `world_size` is the number of ranks of the job, or 0 if it
/// is not known.
bool is_partial(const std::vector<RecordedRow>& rows, std::int64_t world_size);
/// Returns what the recorded ranks did. `meant` is the program that the user expected, or null.
PartialRecord partial_record(const std::vector<RecordedRow>& rows, std::int64_t world_size,
                             const Program* meant);
std::string to_text(const PartialRecord& record, std::size_t width = 0);
std::string partial_record_to_json(const PartialRecord& record);

// Finds out why a pipeline hangs: which rank hangs, and at which action. The input is the flight
// recorder's dumps of all ranks.

enum class HangKind : std::uint8_t {
  order,       // the rank posted other messages than its list has
  gone,        // the rank has no dump, and others wait for it
  stuck,       // the rank waits for no other rank and does not end an action
  cycle,       // ranks wait for each other
  collective,  // the rank has not joined a collective
};
template <>
inline constexpr auto kEnumWords<HangKind> =
    std::to_array<EnumWord<HangKind>>({{HangKind::order, "order"},
                                       {HangKind::gone, "gone"},
                                       {HangKind::stuck, "stuck"},
                                       {HangKind::cycle, "cycle"},
                                       {HangKind::collective, "collective"}});

/// The reason why a pipeline hangs.
struct HangVerdict {
  HangKind kind = HangKind::stuck;
  std::int64_t rank = 0;
  /// For `order`, the message that is missing; otherwise the action that does not start or end.
  std::string action;
  std::int64_t iteration = 0;
  std::string why;                   ///< the reason as one sentence
  std::vector<std::string> waits{};  ///< "rank 1 waits at 1F3 for 0SEND_F3 of rank 0", one line a rank
};

/// Returns the reason why the pipeline hangs, or nothing if the dumps show no hang. `lowered` has the lists
/// that the ranks of one copy of the pipeline should have run. If there are dumps of several copies, the
/// process groups of their messages tell the copies apart. The result is then about the copy that hangs in
/// the earliest iteration. Returns an error if the dumps have more ranks than `lowered` and do not come from
/// several copies.
tl::expected<std::optional<HangVerdict>, std::string> find_recorded_hang(const std::vector<RankDump>& dumps,
                                                                         const Program& lowered);

/// Returns the number of ranks of the pipeline. It is the size of the process group of the messages. If no
/// dump states the group, it follows from the largest rank number in the dumps.
std::int64_t ranks_of_dumps(const std::vector<RankDump>& dumps);

/// Return the reason of a hang. to_text() returns text, and hang_to_json() returns the JSON object {"hang":
/// {...}}.
std::string to_text(const std::optional<HangVerdict>& verdict);
std::string hang_to_json(const std::optional<HangVerdict>& verdict);

}  // namespace penstock
