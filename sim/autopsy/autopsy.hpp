#pragma once
// Analyses a recorded run. It finds which program ran, and if the user expected this program. It finds how
// ranks waited, the costs of actions, and why ranks were idle. It also finds the rank or stage that lost most
// time.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "report/print/text_sink.hpp"
#include "report/result/result.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "sim/autopsy/recorded_run.hpp"
#include "sim/autopsy/recording.hpp"

namespace penstock {

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
  std::string meant;          ///< empty if the meant list ends there
  Ns start_ns = 0;            ///< start of the action that ran, or the end of the list
};

/// The comparison of one pipeline copy in one step with the expected program, and its measured and replayed
/// times.
struct StepVerdict {
  std::int64_t step = 0;
  std::int64_t copy = 0;
  std::optional<bool> as_meant{};  ///< absent if no program was meant
  std::vector<ListDifference> differences{};
  Ns measured_ns = 0;
  Ns replayed_ns = 0;
  Ns without_gaps_ns = 0;
  Ns stage_means_ns = 0;
};

/// A stage, rank or action that makes the run longer, and by how much.
struct Blame {
  IdleCause cause = IdleCause::variation;
  std::int64_t step = 0;  ///< the step of a single action, or the step that is explained
  std::optional<RankName> rank{};
  std::optional<std::int32_t> stage{};
  std::optional<std::int32_t> microbatch{};
  std::string action{};  ///< a single action that took longer than others of its kind
  Ns ns = 0;             ///< part of the makespan; a mean over the steps, or of the action's own step
  std::optional<Ns> without_ns{};  ///< makespan of the explained step without it
  std::string detail{};            ///< for example "F 2.50, B 2.27 times its copies"
};

struct AutopsyOptions {
  std::optional<MeantProgram> meant{};
  bool means = false;  ///< true: the scenario has one mean a stage in place of every duration
  std::int32_t samples = 32;
};

struct Autopsy {
  std::string name{};      ///< the recorded files
  std::string schedule{};  ///< name of the schedule whose lists ran; empty if none has them
  bool was_meant = false;  ///< true if the user named the program that was meant
  Recording recording{};
  std::vector<StepVerdict> steps{};
  Waiting waiting = Waiting::ahead;
  Ns unexplained_ns = 0;                     ///< of the explained step, in the reading that was chosen
  std::optional<Ns> other_unexplained_ns{};  ///< in the other reading; absent if the run contradicts it
  double slowdown = 1;  ///< measured time over that of a run in which each action of a kind takes the mean
  std::int64_t explained_step = 0;
  Explanation why{};  ///< of the step with the median makespan
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
/// duration is replaced by the mean of its kind on its stage.
std::string recorded_scenario(const Autopsy& autopsy, const std::vector<RecordedRun>& runs,
                              const std::optional<MeantProgram>& schedule, bool means);

/// Returns the autopsy as text. `width` is the greatest length of a table's line in characters; 0 means no
/// limit.
std::string autopsy_to_text(const Autopsy& autopsy, std::size_t width = 0);
/// Writes the measured result as JSON, with the additional keys of the autopsy.
void write_autopsy_json(const Autopsy& autopsy, const TextSink& sink);

/// The file name of the recorded lists in the scenario of an autopsy. The code that writes the scenario
/// replaces it by the real name.
inline constexpr const char* kListsFile = "recorded.psched";

}  // namespace penstock
