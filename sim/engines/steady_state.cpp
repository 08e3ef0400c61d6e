// Runs a few repetitions and compares all times of one with those of an earlier one. A deterministic program
// is a max-plus linear system, x(i + 1) = A (x) x(i), so that once two repetitions differ by one constant in
// all times, every later pair does (Baccelli, Cohen, Olsder and Quadrat, Synchronization and Linearity, 1992,
// chapter 3); that constant over the microbatches between them is the period.
//
// The tape of one pass is A: run from the clocks that the pass before has left, it gives the next one, and
// what passes leave is enough to compare. Where more than clocks and queues lasts from pass to pass, or links
// are shared, the program is laid out with all its repetitions. A single long pass is compared microbatch by
// microbatch.

#include "sim/engines/steady_state.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
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

namespace penstock {
namespace {

/// The times of one repetition in a fixed order.
using StageTimes = std::vector<Ns>;

/// By how much `later` runs after `earlier`: one common amount for all times, or nothing.
std::optional<Ns> shift(const StageTimes& earlier, const StageTimes& later) {
  if (earlier.empty() || earlier.size() != later.size()) return std::nullopt;
  const Ns amount = later.front() - earlier.front();
  for (std::size_t i = 0; i < earlier.size(); ++i) {
    if (later[i] - earlier[i] != amount) return std::nullopt;
  }
  return amount;
}

// --- repetitions ------------------------------------------------------------------------------------------

/// The period that the last of some repetitions shows.
std::optional<Period> period_of_last(std::span<const StageTimes> rows, std::int64_t microbatches) {
  for (std::size_t back = 1; back <= rows.size() / 2; ++back) {
    const auto amount = shift(rows[rows.size() - 1 - back], rows.back());
    if (amount) return Period{*amount, static_cast<std::int64_t>(back) * microbatches};
  }
  return std::nullopt;
}

/// `first_rows(n)` are the rows of the first n repetitions of a program of so many actions, or none when it
/// hangs.
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

/// True where the tape of one pass says all that matters to the next one.
bool is_repeated_by_tape(const Experiment& experiment, const FlatProgram& one_pass) {
  const bool has_collectives = !one_pass.next_member.empty();
  if (one_pass.has_launches) return false;
  return !has_collectives && experiment.channels.capacity == 0 && experiment.channels.eager_bytes == 0;
}

/// When the action at a position starts and ends.
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

// --- a stream -------------------------------------------------------------------------------------------

/// What microbatches do, each rank by rank in program order. All rows stand in one list, since millions of
/// them are compared in a search.
class MicrobatchRows {
 public:
  MicrobatchRows(const EngineRun& run, const Program& program)
      : flat_(run.flat), begin_(index(program.microbatches) + 1, 0) {
    const auto row_of = [&](std::int32_t position) {
      return index(flat_.actions[index(position)].microbatch / program.slices);
    };
    for_positions([&](std::int32_t, std::int32_t position) { ++begin_[row_of(position) + 1]; });
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    entries_.resize(begin_.back());
    for_positions([&](std::int32_t rank, std::int32_t position) {
      entries_[next[row_of(position)]++] = {
          .times = times_at(run, index(position)), .rank = rank, .position = position};
    });
  }

  std::size_t size() const { return begin_.size() - 1; }

  /// By how much all that row `later` does runs after the same of row `earlier`; nothing where they differ.
  std::optional<Ns> shift(std::size_t earlier, std::size_t later) const {
    const std::span<const Entry> first = row(earlier);
    const std::span<const Entry> second = row(later);
    if (first.empty() || first.size() != second.size()) return std::nullopt;
    const Ns amount = second.front().times[0] - first.front().times[0];
    for (std::size_t i = 0; i < first.size(); ++i) {
      // Times first: most rows differ in one of the first few.
      if (second[i].times[0] - first[i].times[0] != amount) return std::nullopt;
      if (second[i].times[1] - first[i].times[1] != amount) return std::nullopt;
    }
    return std::ranges::equal(first, second,
                              [&](const Entry& a, const Entry& b) { return does_the_same(a, b); })
               ? std::optional(amount)
               : std::nullopt;
  }

 private:
  struct Entry {
    std::array<Ns, 2> times{};
    std::int32_t rank = 0;
    std::int32_t position = 0;
  };

  template <class Do>
  void for_positions(const Do& act) const {
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      for (std::int32_t p = flat_.rank_begin[index(rank)]; p < flat_.rank_begin[index(rank) + 1]; ++p)
        if (flat_.actions[index(p)].microbatch != kNoMicrobatch) act(rank, p);
    }
  }

  std::span<const Entry> row(std::size_t number) const {
    return std::span(entries_).subspan(begin_[number], begin_[number + 1] - begin_[number]);
  }

  bool does_the_same(const Entry& a, const Entry& b) const {
    const Action& one = flat_.actions[index(a.position)];
    const Action& other = flat_.actions[index(b.position)];
    return a.rank == b.rank && one.kind == other.kind && one.stage == other.stage;
  }

  const FlatProgram& flat_;
  std::vector<std::size_t> begin_;  // by microbatch
  std::vector<Entry> entries_;
};

/// False where no `length` rows in sequence each have one shift to the row `back` behind them: of so many,
/// one stands at each multiple of their number.
bool may_repeat(const MicrobatchRows& rows, std::size_t depth, std::size_t back, std::size_t length) {
  for (std::size_t m = depth + length - 1; m + back + depth < rows.size(); m += length)
    if (rows.shift(m, m + back)) return true;
  return false;
}

/// The period of the rows that are neither among the first nor the last `depth`.
std::optional<Period> period_of_rows(const MicrobatchRows& rows, std::size_t depth) {
  for (std::size_t back = 1; 3 * depth + 2 * back <= rows.size() && back <= 4 * depth; ++back) {
    if (!may_repeat(rows, depth, back, depth + back)) continue;
    std::optional<Ns> common;
    std::size_t run = 0;
    for (std::size_t m = depth; m + back + depth < rows.size(); ++m) {
      const auto amount = rows.shift(m, m + back);
      run = !amount ? 0 : amount == common ? run + 1 : 1;
      common = amount;
      if (run >= depth + back) return Period{*amount, static_cast<std::int64_t>(back)};
    }
  }
  return std::nullopt;
}

/// Of an experiment of one iteration.
std::optional<Period> period_of_one_pass(const Experiment& experiment, Engine engine, const EngineRun& run) {
  if (experiment.program.update == UpdateRule::microbatch) return period_of_stream(run, experiment.program);
  if (run.tape && is_repeated_by_tape(experiment, run.flat)) {
    RepeatedTape passes(run.tape->tape, run.tape->costs, experiment.program);
    return period_of_passes(experiment.program, action_count(experiment.program), passes);
  }
  return period_of_iterations(experiment, engine);
}

}  // namespace

double samples_per_second(const Period& period, double samples_per_microbatch) {
  return static_cast<double>(period.microbatches) * samples_per_microbatch * 1e9 /
         static_cast<double>(period.period_ns);
}

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

std::int32_t dependency_depth(const Program& program) {
  std::int32_t depth = 1;
  for (const std::vector<Action>& list : program.ranks) {
    std::int32_t before = kNoMicrobatch;
    for (const Action& action : list) {
      if (action.microbatch == kNoMicrobatch) continue;
      if (before != kNoMicrobatch) depth = std::max(depth, std::abs(action.microbatch - before) + 1);
      before = action.microbatch;
    }
  }
  return depth;
}

std::optional<Period> period_of_stream(const EngineRun& run, const Program& program) {
  return period_of_rows(MicrobatchRows(run, program), index(dependency_depth(program)));
}

std::vector<Ns> microbatch_ends(const EngineRun& run, const Program& program) {
  std::vector<Ns> ends(index(program.microbatches), 0);
  for (std::size_t p = 0; p < run.flat.actions.size(); ++p) {
    const Action& action = run.flat.actions[p];
    if (run.flat.ops[p] != FlatOp::compute || action.microbatch == kNoMicrobatch) continue;
    Ns& end = ends[index(action.microbatch / program.slices)];
    end = std::max(end, run.times.end[p]);
  }
  return ends;
}

namespace {

/// What the busiest rank computes in a run.
Ns most_compute(const EngineRun& run) {
  Ns most = 0;
  for (std::int32_t rank = 0; rank < run.flat.rank_count; ++rank) {
    Ns busy = 0;
    for (std::size_t p = index(run.flat.rank_begin[index(rank)]);
         p < index(run.flat.rank_begin[index(rank) + 1]); ++p)
      if (run.flat.ops[p] == FlatOp::compute) busy += run.times.end[p] - run.times.start[p];
    most = std::max(most, busy);
  }
  return most;
}

}  // namespace

std::optional<Period> mean_of_rounds(const EngineRun& run, const Program& program, std::int64_t round) {
  const std::int64_t depth = dependency_depth(program);
  const std::int64_t rounds = (program.microbatches - 2 * depth) / round;
  if (rounds < 2) return std::nullopt;
  // The last half of the whole rounds before the pipeline drains: what fills it is over. Between the mean
  // ends of two stretches, since single ends go to and fro.
  const std::int64_t stretch = std::max<std::int64_t>(1, rounds / 4) * round;
  const auto last = program.microbatches - depth;
  const std::vector<Ns> ends = microbatch_ends(run, program);
  double moved_ns = 0;
  for (std::int64_t m = last - stretch; m < last; ++m)
    moved_ns += static_cast<double>(ends[index(m)] - ends[index(m - stretch)]);
  const auto mean = static_cast<Ns>(std::llround(moved_ns / static_cast<double>(stretch)));
  // It may fall short of what a rank has to compute, which no stream can.
  const double share = static_cast<double>(stretch) / program.microbatches;
  const auto least = static_cast<Ns>(std::ceil(static_cast<double>(most_compute(run)) * share));
  return Period{std::max(mean, least), stretch};
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
