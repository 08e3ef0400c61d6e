// Analyses a recorded run. First, it compares the recorded lists with the program that the user expected.
// Then it builds and replays each step under two assumptions about how ranks wait. It explains the step with
// the median makespan, and finds the cause of lost time. Finally it writes the costs as a scenario. Tests:
// tests/sim/autopsy_test.cpp.

#include "sim/autopsy/autopsy.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/autopsy/recording.hpp"
#include "sim/why/explain.hpp"

namespace penstock {
namespace {

/// Returns the forward and backward passes in a recorded list. Other actions, such as messages, are left
/// out.
std::vector<const RecordedAction*> recorded_passes(const std::vector<RecordedAction>& list) {
  std::vector<const RecordedAction*> passes;
  for (const RecordedAction& one : list) {
    if (has_weight_version(one.action.kind)) passes.push_back(&one);
  }
  return passes;
}

std::vector<std::string> meant_passes(const std::vector<Action>& list) {
  std::vector<std::string> passes;
  for (const Action& action : list) {
    if (has_weight_version(action.kind)) passes.push_back(to_text(action));
  }
  return passes;
}

/// Compares the recorded list of each rank of a pipeline copy with the list that the user expected. Returns
/// the first difference of each rank that has one.
std::vector<ListDifference> differences_of(const Recording& recording, const RecordedStep& step,
                                           std::int32_t copy, const Program& meant) {
  std::vector<ListDifference> differences;
  for (std::int32_t rank = 0; rank < recording.ranks_of_copy(); ++rank) {
    const std::size_t of_job = index(rank * recording.copies + copy);
    const auto ran = recorded_passes(step.lists[of_job]);
    const auto expected = meant_passes(meant.ranks[index(rank)]);
    const std::size_t most = std::max(ran.size(), expected.size());
    for (std::size_t i = 0; i < most; ++i) {
      const std::string text = i < ran.size() ? text_in_copy(ran[i]->action, recording.copies) : "";
      const std::string wanted = i < expected.size() ? expected[i] : "";
      if (text == wanted) continue;
      const Ns at = i < ran.size() ? ran[i]->start_ns : ran.empty() ? 0 : ran.back()->end_ns;
      differences.push_back({.rank = recording.names[of_job],
                             .position = static_cast<std::int32_t>(i),
                             .ran = text,
                             .meant = wanted,
                             .start_ns = at});
      break;
    }
  }
  return differences;
}

/// Returns the number of stages on each rank (v). Returns nothing if ranks hold different numbers of stages.
std::optional<std::int32_t> chunks_of_recording(const Recording& recording) {
  const std::int32_t ranks = recording.ranks_of_copy();
  if (recording.stages % ranks != 0) return std::nullopt;
  return recording.stages / ranks;
}

/// Returns how copies of the pipeline reduce their gradients in a record. Returns nothing if no rank has
/// recorded a reduction or a STEP. A STEP waits for the slowest copy, even if its reduction was not recorded.
std::optional<Reduction> recorded_reduction(const Recording& recording) {
  std::optional<Reduction> found;
  for (const auto& list : recording.steps.front().lists) {
    bool reduces = false;
    for (const RecordedAction& one : list) {
      const ActionKind kind = one.action.kind;
      if (has_weight_version(kind) && reduces) return Reduction::overlapped;
      reduces = reduces || kind == ActionKind::reduce_grad;
      if (kind == ActionKind::reduce_grad || kind == ActionKind::step) found = Reduction::at_end;
    }
  }
  return found;
}

/// Returns the program of the whole job. It has all copies of the pipeline in the expected schedule. It has
/// STEPs if the schedule has them, and reductions of gradients if the recording has them.
std::optional<Program> job_program(const Recording& recording, const MeantProgram& meant) {
  if (!meant.shape) {
    if (recording.copies > 1) return std::nullopt;
    return meant.program;
  }
  Shape shape = *meant.shape;
  shape.microbatches *= recording.copies;
  shape.data_parallel = recording.copies;
  if (recording.copies > 1) {
    const auto reduction = recorded_reduction(recording);
    shape.replica_sync = reduction ? ReplicaSync::on : ReplicaSync::off;
    shape.reduction = reduction.value_or(Reduction::at_end);
  }
  auto program = generate(meant.name, shape);
  if (!program) return std::nullopt;
  return *std::move(program);
}

bool has_lists_of(const RecordedStep& step, const Program& program) {
  for (std::size_t rank = 0; rank < step.lists.size(); ++rank) {
    const auto ran = recorded_passes(step.lists[rank]);
    const auto listed = meant_passes(program.ranks[rank]);
    if (!std::ranges::equal(ran, listed, {}, [](const RecordedAction* one) { return to_text(one->action); }))
      return false;
  }
  return true;
}

/// A cache of the lowered program of the latest step. Most steps have the same lists as the schedule or as
/// the previous step, so the cached program is used again.
class LoweredSteps {
 public:
  LoweredSteps(const Recording& recording, std::optional<Program> job)
      : recording_(recording), job_(std::move(job)) {}

  /// Lowers the lists of a step, so that lowered() returns them. Returns an error if the lists are not a
  /// valid program.
  tl::expected<void, std::string> read(const RecordedStep& step) {
    const bool is_job = job_ && has_lists_of(step, *job_);
    Program program = is_job ? *job_ : program_of(recording_, step);
    if (last_ == program && lowered_[0]) return {};
    if (auto valid = validate(program); !valid) {
      return tl::unexpected(
          fmt::format("step {}: the recorded lists are not a valid program: {}", step.number, valid.error()));
    }
    for (const Waiting waiting : {Waiting::ahead, Waiting::batched}) {
      auto lowered = lower(program, channels_of(waiting));
      if (!lowered) return tl::unexpected(fmt::format("step {}: {}", step.number, lowered.error()));
      lowered_[static_cast<std::size_t>(waiting)] = *std::move(lowered);
    }
    last_ = std::move(program);
    return {};
  }
  /// Returns the lowered lists of the latest step. Their messages have the channels of the assumption
  /// `waiting` about how ranks wait.
  const Program& lowered(Waiting waiting) const { return *lowered_[static_cast<std::size_t>(waiting)]; }
  /// Returns the lists of the latest step before they were lowered. They have only compute actions.
  const Program& compute_lists() const { return last_; }

 private:
  const Recording& recording_;
  std::optional<Program> job_;
  Program last_;
  std::array<std::optional<Program>, 2> lowered_;
};

/// The runs of all steps under both assumptions about how ranks wait (Waiting). If a step contradicts an
/// assumption, it has no run under this assumption.
struct ReadSteps {
  std::vector<RecordedRun> ahead;
  std::vector<RecordedRun> batched;
  std::vector<Program> lists;  // compute lists by step
};

tl::expected<ReadSteps, std::string> read_steps(const Recording& recording, LoweredSteps& lowered) {
  ReadSteps read;
  for (const RecordedStep& step : recording.steps) {
    if (auto lists_read = lowered.read(step); !lists_read) return tl::unexpected(lists_read.error());
    if (auto run = recorded_run(step, lowered.lowered(Waiting::ahead), Waiting::ahead))
      read.ahead.push_back(*std::move(run));
    if (auto run = recorded_run(step, lowered.lowered(Waiting::batched), Waiting::batched))
      read.batched.push_back(*std::move(run));
    read.lists.push_back(lowered.compute_lists());
  }
  const std::size_t steps = recording.steps.size();
  if (read.ahead.size() < steps && read.batched.size() < steps)
    return tl::unexpected(std::string("the recorded lists hang, so they cannot be those of a run"));
  return read;
}

/// Returns a verdict for each pipeline copy in each step. The verdict says if the copy ran the program that
/// the user expected.
std::vector<StepVerdict> compared_steps(const Recording& recording,
                                        const std::optional<MeantProgram>& meant) {
  std::vector<StepVerdict> verdicts;
  for (const RecordedStep& step : recording.steps) {
    for (std::int32_t copy = 0; copy < recording.copies; ++copy) {
      StepVerdict verdict{.step = step.number, .copy = recording.names[index(copy)].copy};
      if (meant) {
        verdict.differences = differences_of(recording, step, copy, meant->program);
        verdict.as_meant = verdict.differences.empty();
      }
      verdicts.push_back(std::move(verdict));
    }
  }
  return verdicts;
}

Ns sum_of_unexplained(const std::vector<RecordedRun>& runs) {
  return std::accumulate(runs.begin(), runs.end(), Ns{0},
                         [](Ns sum, const RecordedRun& run) { return sum + run.unexplained_ns; });
}

/// Returns the index in `runs` of the step with the median makespan. If the number of steps is even, this is
/// the quicker one of the two in the middle.
std::size_t median_step(const std::vector<RecordedRun>& runs) {
  std::vector<std::size_t> order(runs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return runs[i].timeline.makespan_ns; });
  return order[(order.size() - 1) / 2];
}

/// Summarizes the times of `run` as a result of the kind ResultKind::measured.
Result measured_result(const Autopsy& autopsy, const RecordedRun& run) {
  const Program& program = run.caused.program;
  const CostTable costs = uniform_costs(program, {});
  RunFacts facts{.program = program,
                 .costs = costs,
                 .kind = ResultKind::measured,
                 .scenario = autopsy.scenario,
                 .engine = "recorded",
                 .channels = run.caused.channels,
                 .notes = autopsy.notes,
                 .pipeline_size = autopsy.recording.ranks_of_copy(),
                 .clock_error_ns = autopsy.recording.clock_error_ns};
  return summarize(run.timeline, std::move(facts));
}

void add_replays(std::vector<StepVerdict>& verdicts, const Recording& recording, const RecordedStep& step,
                 const RecordedRun& run, std::size_t first) {
  const CopyTimes measured = recorded_times(recording, step);
  const CopyTimes replayed = replayed_times(recording, run, Replayed::as_recorded);
  const CopyTimes without_gaps = replayed_times(recording, run, Replayed::without_gaps);
  const CopyTimes means = replayed_times(recording, run, Replayed::with_stage_means);
  for (std::size_t copy = 0; copy < measured.size(); ++copy) {
    StepVerdict& verdict = verdicts[first + copy];
    verdict.measured_ns = measured[copy];
    verdict.replayed_ns = replayed[copy];
    verdict.without_gaps_ns = without_gaps[copy];
    verdict.stage_means_ns = means[copy];
  }
}

double slowdown_of(const Recording& recording, const std::vector<RecordedRun>& runs) {
  double measured = 0;
  double even = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    measured += static_cast<double>(std::ranges::max(recorded_times(recording, recording.steps[i])));
    even +=
        static_cast<double>(std::ranges::max(replayed_times(recording, runs[i], Replayed::with_kind_means)));
  }
  return even > 0 ? measured / even : 1;
}

}  // namespace

bool Autopsy::as_meant() const {
  return std::ranges::all_of(steps, [](const StepVerdict& step) { return step.as_meant.value_or(true); });
}

std::optional<MeantProgram> recognised_schedule(const Recording& recording) {
  const auto chunks = chunks_of_recording(recording);
  if (!chunks || recording.microbatches % recording.copies != 0) return std::nullopt;
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (schedule.asynchronous) continue;
    Shape shape{.stages = recording.ranks_of_copy(),
                .microbatches = recording.microbatches / recording.copies};
    if (takes_chunks(schedule)) shape.virtual_stages = *chunks;
    if (chunks_of(schedule, shape) != *chunks || !check_shape(schedule.name, shape)) continue;
    auto program = generate(schedule.name, shape);
    if (!program || program->rank_count() != shape.stages) continue;
    if (differences_of(recording, recording.steps.front(), 0, *program).empty()) {
      return MeantProgram{.name = std::string(schedule.name), .program = *std::move(program), .shape = shape};
    }
  }
  return std::nullopt;
}

tl::expected<Autopsy, std::string> autopsy_of(Recording recording, std::string name,
                                              const AutopsyOptions& options) {
  Autopsy autopsy;
  autopsy.name = std::move(name);
  autopsy.was_meant = options.meant.has_value();
  autopsy.notes = recording.notes;
  std::optional<MeantProgram> schedule = options.meant;
  if (schedule && schedule->program.rank_count() != recording.ranks_of_copy()) {
    return tl::unexpected(fmt::format("expected {} ranks, as {} has them, got {} in each copy",
                                      schedule->program.rank_count(), schedule->name,
                                      recording.ranks_of_copy()));
  }
  autopsy.steps = compared_steps(recording, schedule);
  if (!schedule || !autopsy.as_meant()) schedule = recognised_schedule(recording);
  if (schedule) autopsy.schedule = schedule->name;

  LoweredSteps lowered(recording, schedule ? job_program(recording, *schedule) : std::nullopt);
  auto read = read_steps(recording, lowered);
  if (!read) return tl::unexpected(read.error());
  const std::size_t steps = recording.steps.size();
  const bool is_batched =
      read->batched.size() == steps &&
      (read->ahead.size() < steps || sum_of_unexplained(read->batched) < sum_of_unexplained(read->ahead));
  autopsy.waiting = is_batched ? Waiting::batched : Waiting::ahead;
  const std::vector<RecordedRun>& runs = is_batched ? read->batched : read->ahead;
  const std::vector<RecordedRun>& others = is_batched ? read->ahead : read->batched;
  const std::size_t explained_step = median_step(runs);
  const RecordedRun& run = runs[explained_step];
  autopsy.unexplained_ns = run.unexplained_ns;
  if (others.size() == runs.size()) autopsy.other_unexplained_ns = others[explained_step].unexplained_ns;

  for (std::size_t i = 0; i < runs.size(); ++i)
    add_replays(autopsy.steps, recording, recording.steps[i], runs[i], i * index(recording.copies));
  autopsy.slowdown = slowdown_of(recording, runs);
  autopsy.explained_step = recording.steps[explained_step].number;
  autopsy.program = read->lists[explained_step];
  autopsy.why = explained(run.caused, {.samples = options.samples});
  autopsy.why.name = autopsy.name;
  autopsy.blame = blame_of(recording, runs, explained_step, options.samples);
  autopsy.recording = std::move(recording);
  autopsy.scenario = recorded_scenario(autopsy, runs, schedule, options.means);
  autopsy.result = measured_result(autopsy, run);
  return autopsy;
}

}  // namespace penstock
