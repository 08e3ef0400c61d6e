// Chooses the engine of a run. Each engine supports only some programs and outputs. For each engine, one
// function returns the reason against it. The table of engines is ordered by memory, and the first engine
// without such a reason is chosen. So the choice can be printed and tested without a run.
//
//   compute actions     2^24                     2^29                            2^40
//            figures ----|---- without digest ----|---- streamed, or refused ----|
//          timeline, at most 2^27                 |     no list is made
//
// tests/sim/plan_run_test.cpp tests the choices for all schedules. README.md says which files belong to each
// engine.

#include "sim/runs/plan_run.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/prepare/cut.hpp"  // IWYU pragma: keep (its members are read)
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/streamed_walk.hpp"
#include "sim/runs/run_facts.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {
namespace {

// A program with more compute actions is stored only if no other engine can run it.
constexpr double kMostStored = 1 << 24;
constexpr double kMostOnTimeline = 1 << 27;  // largest number of compute actions of a timeline
constexpr double kMostNumbered = 1 << 29;    // largest number of compute actions that a stored run can number

/// The properties of an experiment and of the wanted run that decide which engines can run it.
struct PlanFacts {
  const Experiment& experiment;
  const Wanted& wanted;
  std::optional<bool> stages_share;  ///< computed at the first use
};

/// Returns true if messages between different stages may use the same links. This depends only on the
/// placement and not on the lists. The answer is stored in `facts`.
bool may_share_links(PlanFacts& facts) {
  if (!facts.stages_share) facts.stages_share = stages_share_links(facts.experiment);
  return *facts.stages_share;
}

bool is_long(const PlanFacts& facts) {
  const Experiment& experiment = facts.experiment;
  return !experiment.loops.empty() && !facts.wanted.timeline && experiment.compute_actions > kMostStored;
}

bool can_be_stored(const PlanFacts& facts) { return facts.experiment.compute_actions <= kMostNumbered; }

using Reason = std::optional<std::string>;

/// Returns true if the program has an action whose kind satisfies `is_one`.
bool has_kind(const Experiment& experiment, bool (*is_one)(ActionKind)) {
  const auto has_one = [&](const auto& list) {
    return std::ranges::any_of(list, [&](const Action& action) { return is_one(action.kind); });
  };
  return std::ranges::any_of(experiment.program.ranks, has_one) ||
         std::ranges::any_of(experiment.loops, has_one);
}

/// Returns the reason against the two engines that use placement rounds, or nothing if there is none.
Reason against_following_turns(const Wanted& wanted) {
  if (wanted.stored) return "stored lists are asked for";
  if (wanted.asked == Engine::event) return "the event engine is asked for";
  if (wanted.own_period)
    return "the steady rate is that of the run's own microbatches, read off stored times";
  if (!wanted.stalled.empty()) return "turns stall, which lists prove harmless or refuse: " + wanted.stalled;
  return std::nullopt;
}

Reason against_stream(PlanFacts& facts) {
  const Wanted& wanted = facts.wanted;
  const Experiment& experiment = facts.experiment;
  if (auto reason = against_following_turns(wanted)) return reason;
  if (wanted.timeline) return "a timeline has the span of every action";
  if (!is_long(facts)) {
    // form_of_run() makes loops for a row only if the stream is faster.
    if (wanted.figures == WantedFigures::of_rows && experiment.loops.empty())
      return "a row needs few figures, and a tape is faster";
    if (wanted.memory_over_time) return "a curve of memory is drawn from spans";
  }
  if (experiment.loops.empty())
    return "the program has no loops" + (experiment.why_lists.empty() ? "" : ": " + experiment.why_lists);
  if (auto reason = not_streamed(experiment, experiment.loops)) return reason;
  if (is_prefill(experiment)) return "times of first tokens, which are read off spans";
  // If the lists cannot be stored, the stream engine runs as if no links were shared, and a note states this.
  const bool left_out = is_long(facts) && (wanted.asked != Engine::automatic || !can_be_stored(facts));
  if (!left_out && may_share_links(facts)) return "messages share links";
  return std::nullopt;
}

Reason against_lists(const PlanFacts& facts) {
  if (can_be_stored(facts)) return std::nullopt;
  return "more than 2^29 compute actions are not stored";
}

Reason against_turns(PlanFacts& facts) {
  const Experiment& experiment = facts.experiment;
  const Program& program = experiment.program;
  const ChannelOptions& channels = experiment.channels;
  if (auto reason = against_following_turns(facts.wanted)) return reason;
  if (auto reason = against_lists(facts)) return reason;
  if (experiment.pipeline_size == 0) return "a program file";
  if (program.iterations > 1) return "iterations of a pass";
  if (channels.blocking == Blocking::each) return "blocking channels";
  if (channels.blocking == Blocking::batched) return "transfers in groups";
  if (channels.launch_order) return "a launch order";
  if (channels.capacity > 0) return "channels of a capacity";
  if (channels.eager_bytes > 0) return "eager messages";
  if (!experiment.costs.launch.is_free()) return "hosts that launch";
  // Even a stage on a single rank may have collectives, so all lists are searched.
  if (has_kind(experiment, is_collective)) return "collectives";
  if (has_kind(experiment, is_host_copy)) return "OFFLOAD and RELOAD";
  if (program.rank_count() > 1 && experiment.loops.empty() && is_lowered(program))
    return "the program has its messages";
  if (may_share_links(facts)) return "messages share links";
  return std::nullopt;
}

Reason against_tape(PlanFacts& facts) {
  if (auto reason = against_lists(facts)) return reason;
  if (facts.wanted.asked == Engine::event) return "the event engine is asked for";
  if (facts.wanted.asked == Engine::automatic &&
      (may_share_links(facts) && links_are_shared(facts.experiment)))
    return "messages share links";
  return std::nullopt;
}

Reason against_event(PlanFacts& facts) { return against_lists(facts); }

/// An entry of the table of engines. The first entry is the engine that needs least memory.
struct EngineRow {
  RunEngine engine;
  Reason (*against)(PlanFacts&);
};
constexpr std::array kEngines = {
    EngineRow{RunEngine::stream, against_stream}, EngineRow{RunEngine::turns, against_turns},
    EngineRow{RunEngine::tape, against_tape}, EngineRow{RunEngine::event, against_event}};

std::string no_engine_text(const Experiment& experiment, const std::vector<RuledOutEngine>& ruled_out) {
  return fmt::format(
      "{:.3g} compute actions are too many to be stored (at most 2^29 are), and cannot be streamed: {}",
      experiment.compute_actions, ruled_out.front().reason);
}

}  // namespace

tl::expected<RunPlan, std::string> plan_run(const Experiment& experiment, const Wanted& wanted,
                                            const MemoryBudget& budget) {
  PlanFacts facts{.experiment = experiment, .wanted = wanted, .stages_share = {}};
  RunPlan plan{.engine = RunEngine::stream, .ruled_out = {}, .is_long = is_long(facts)};
  for (const EngineRow& row : kEngines) {
    if (auto reason = row.against(facts)) {
      plan.ruled_out.push_back({row.engine, *std::move(reason)});
      continue;
    }
    plan.engine = row.engine;
    if (row.engine == RunEngine::stream && plan.is_long) plan.shares_links = may_share_links(facts);
    const ActionCounts counts = action_counts(experiment);
    plan.bytes = counts * action_bytes(row.engine, wanted, experiment.trained.has_value());
    if (auto refusal = bytes_refusal(counts, plan.bytes, wanted, budget))
      return tl::unexpected(*std::move(refusal));
    return plan;
  }
  return tl::unexpected(no_engine_text(experiment, plan.ruled_out));
}

namespace {

/// Returns true if a streamed walk finds the few figures of a sweep's point faster than a tape. The walk
/// places all actions until the pipeline repeats itself, and jumps over the others. A tape has an instruction
/// for each action. If ranks store many microbatches, as in GPipe, unequal stages may never repeat. Requires
/// a schedule that can be written as loops.
bool jumps_over_most(const Preparation& begun) {
  constexpr double kFewestActions = 1 << 14;
  constexpr double kMicrobatchesOfStage = 24;
  constexpr std::int64_t kMicrobatchesOfStored = 4;
  if (begun.compute_actions < kFewestActions) return false;
  const std::string& name = begun.in_force.schedule.name;
  Shape shape = begun.in_force.schedule.shape;
  // prepare() reports the fault of a shape that the schedule refuses.
  if (!check_shape(name, shape)) return false;
  const ScheduleInfo& schedule = *find_schedule(name);
  shape.virtual_stages = chunks_of(schedule, shape);
  const double stages = begun.compute_actions / (2.0 * shape.microbatches);
  return shape.microbatches >= kMicrobatchesOfStage * stages &&
         shape.microbatches >= kMicrobatchesOfStored * claimed_peak(schedule, shape, 0);
}

}  // namespace

ProgramForm form_of_run(const Preparation& begun, const Wanted& wanted) {
  const bool lists_alone = wanted.stored || wanted.timeline || wanted.asked == Engine::event;
  if (lists_alone || !why_no_loops(begun).empty()) return ProgramForm::lists;
  const bool is_long = begun.compute_actions > kMostStored;
  const bool prefers_lists =
      wanted.memory_over_time || (wanted.figures == WantedFigures::of_rows && !jumps_over_most(begun));
  return prefers_lists && !is_long ? ProgramForm::lists : ProgramForm::loops;
}

std::optional<std::string> length_refusal(const Preparation& begun, const Wanted& wanted,
                                          const MemoryBudget& budget) {
  const double actions = begun.compute_actions;
  // generate() refuses longer programs itself.
  if (actions > kMostGenerated) return std::nullopt;
  if (wanted.timeline && actions > kMostOnTimeline) {
    return fmt::format(
        "a timeline of {:.3g} compute actions is too long: at most 2^27 are kept; leave out --timeline and "
        "files that draw it, or take fewer stages, microbatches or iterations",
        actions);
  }
  if (form_of_run(begun, wanted) == ProgramForm::loops) return std::nullopt;
  const bool is_on_devices = begun.copy->work.has_value();
  if (const std::string reason = why_no_loops(begun); actions > kMostNumbered && !reason.empty() &&
                                                      !wanted.timeline && !begun.copy->scenario.program &&
                                                      !begun.copy->copies) {
    return fmt::format(
        "{} cannot be streamed, and at most 2^29 compute actions are stored; take fewer stages, "
        "microbatches or iterations",
        reason);
  }
  const RunEngine least = wanted.stored ? RunEngine::tape : RunEngine::turns;
  const ActionCounts counts = action_counts(begun);
  return bytes_refusal(counts, counts * action_bytes(least, wanted, is_on_devices), wanted, budget);
}

std::string plan_text(const RunPlan& plan, const Wanted& wanted) {
  std::string text;
  for (const EngineRow& row : kEngines) {
    const auto ruled_out = std::ranges::find(plan.ruled_out, row.engine, &RuledOutEngine::engine);
    std::string verdict = "not needed: the one above stores less";
    if (ruled_out != plan.ruled_out.end()) verdict = "ruled out: " + ruled_out->reason;
    if (row.engine == plan.engine) {
      const ActionBytes bytes = action_bytes(row.engine, wanted, false);
      verdict = row.engine == RunEngine::stream
                    ? std::string("runs: its memory does not grow with the number of microbatches")
                    : fmt::format("runs: at least {:g} B a compute action and {:g} B a message",
                                  bytes.compute, bytes.transfer);
    }
    text += fmt::format("{:<7} {}\n", to_text(row.engine), verdict);
  }
  return text;
}

}  // namespace penstock
