// Runs a few repetitions and compares all their times. A deterministic program is a max-plus linear system,
// x(i + 1) = A (x) x(i). If two repetitions differ by one constant in all times, every later pair does
// (Baccelli, Cohen, Olsder and Quadrat, Synchronization and Linearity, 1992, chapter 3). The constant,
// divided by the microbatches between them, is the period.
//
// The tape of one pass is A: run from the clocks at the end of one pass, it gives the next. The clocks and
// queues at the end of each pass are enough for the comparison. If more than clocks and queues lasts from
// pass to pass, or if links are shared, the program is flattened with all its repetitions. stream_period.cpp
// handles streams.

#include "sim/engines/steady_state.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/period.hpp"
#include "sim/engines/stream_period.hpp"

namespace penstock {
namespace {

/// The times of one repetition in a fixed order.
using StageTimes = std::vector<Ns>;

/// Returns the amount by which `later` comes after `earlier`, if it is equal for all times. Otherwise returns
/// nothing.
std::optional<Ns> shift(const StageTimes& earlier, const StageTimes& later) {
  if (earlier.empty() || earlier.size() != later.size()) return std::nullopt;
  const Ns amount = later.front() - earlier.front();
  for (std::size_t i = 0; i < earlier.size(); ++i) {
    if (later[i] - earlier[i] != amount) return std::nullopt;
  }
  return amount;
}

// --- repetitions ------------------------------------------------------------------------------------------

/// Returns the period that the last of the repetitions shows.
std::optional<Period> period_of_last(std::span<const StageTimes> rows, std::int64_t microbatches) {
  for (std::size_t back = 1; back <= rows.size() / 2; ++back) {
    const auto amount = shift(rows[rows.size() - 1 - back], rows.back());
    if (amount) return Period{*amount, static_cast<std::int64_t>(back) * microbatches};
  }
  return std::nullopt;
}

/// Doubles the number of repetitions until a period shows. `first_rows(n)` returns the rows of the first n
/// repetitions, or none if the program hangs. `actions` is the number of actions of the program.
template <class FirstRows>
std::optional<Period> period_of_repetitions(std::int64_t microbatches, std::size_t actions,
                                            const FirstRows& first_rows) {
  constexpr std::size_t kMostActions = 1U << 23U;
  for (std::int32_t repetitions = 2; repetitions <= 64; repetitions *= 2) {
    if (repetitions > 2 && (actions + 1) * index(repetitions) > kMostActions) return std::nullopt;
    if (const auto period = period_of_last(first_rows(repetitions), microbatches)) return period;
  }
  return std::nullopt;
}

std::size_t action_count(const Program& program) {
  std::size_t actions = 0;
  for (const auto& list : program.ranks) actions += list.size();
  return actions;
}

/// Returns true if the tape of one pass contains everything that matters to the next pass.
bool is_repeated_by_tape(const Experiment& experiment, const FlatProgram& one_pass) {
  const bool has_collectives = !one_pass.next_member.empty();
  // Launches that a host has made in advance last from pass to pass.
  if (one_pass.has_launches) return false;
  return !has_collectives && experiment.channels.capacity == 0 && experiment.channels.eager_bytes == 0;
}

/// Returns the start and the end of the action at a position.
std::array<Ns, 2> times_at(const EngineRun& run, std::size_t position) {
  const std::int32_t message = run.flat.message[position];
  if (message == kNone) return {run.times.start[position], run.times.end[position]};
  return {run.times.message_start[index(message)], run.times.message_end[index(message)]};
}

std::vector<StageTimes> rows_by_iteration(const EngineRun& run, const Program& program) {
  std::vector<StageTimes> rows(index(program.iterations));
  std::size_t position = 0;
  for (const std::vector<Action>& list : program.ranks) {
    for (StageTimes& row : rows) {
      for (std::size_t i = 0; i < list.size(); ++position) {
        // A barrier belongs to no list. It comes after each iteration except the last.
        if (run.flat.ops[position] == FlatOp::barrier) continue;
        const std::array<Ns, 2> times = times_at(run, position);
        row.insert(row.end(), times.begin(), times.end());
        ++i;
      }
    }
  }
  return rows;
}

std::optional<Period> period_of_iterations(const Experiment& experiment, Engine engine) {
  Experiment repeated = experiment;
  return period_of_repetitions(
      experiment.program.microbatches, action_count(experiment.program), [&](std::int32_t repetitions) {
        repeated.program.iterations = repetitions;
        const auto run = run_engine(repeated, engine);
        return run ? rows_by_iteration(*run, repeated.program) : std::vector<StageTimes>{};
      });
}

/// Returns the period of an experiment with one iteration.
std::optional<Period> period_of_one_pass(const Experiment& experiment, Engine engine, const EngineRun& run) {
  if (experiment.program.update == UpdateRule::microbatch) return period_of_stream(run, experiment.program);
  if (run.tape && is_repeated_by_tape(experiment, run.flat)) {
    RepeatedTape passes(run.tape->tape, run.tape->costs, experiment.program);
    return period_of_passes(experiment.program, action_count(experiment.program), passes);
  }
  return period_of_iterations(experiment, engine);
}

}  // namespace

std::optional<Period> period_of_passes(const Program& program, std::size_t actions, RepeatedTape& passes) {
  std::vector<StageTimes> left;
  return period_of_repetitions(program.microbatches, actions, [&](std::int32_t repetitions) {
    while (left.size() < index(repetitions)) {
      if (!left.empty() || !passes.has_run()) passes.pass();
      left.push_back(passes.left());
    }
    return std::span<const StageTimes>(left);
  });
}

std::optional<Period> steady_period(const Experiment& experiment, Engine engine, const EngineRun& run) {
  if (experiment.program.iterations == 1) return period_of_one_pass(experiment, engine, run);
  return steady_period(experiment, engine);
}

std::optional<Period> steady_period(const Experiment& experiment, Engine engine) {
  if (experiment.program.iterations > 1) {
    Experiment once = experiment;
    once.program.iterations = 1;
    return steady_period(once, engine);
  }
  const auto run = run_engine(experiment, engine);
  return run ? period_of_one_pass(experiment, engine, *run) : std::nullopt;
}

}  // namespace penstock
