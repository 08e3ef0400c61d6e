// Runs a few repetitions of a program and compares all their times. A deterministic program is a max-plus
// linear system, x(i + 1) = A (x) x(i). If two repetitions differ by the same constant in all times, every
// later pair does (Baccelli, Cohen, Olsder and Quadrat, Synchronization and Linearity, 1992, chapter 3). The
// constant is the period of the microbatches between the two repetitions.
//
// The tape of one pass is A: it computes the clocks and queues at the end of a pass from those at the end of
// the pass before. So it is enough to compare these clocks and queues. If a pass depends on more than clocks
// and queues, or if links are shared, a program with all the repetitions runs instead. The second half of
// this file handles streams.

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

#include "report/timeline/spans.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/launch_lists.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/take_turns.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/evaluate.hpp"

namespace penstock {

namespace {

/// The times of one repetition, in the same order for all repetitions.
using StageTimes = std::vector<Ns>;

/// Returns the difference between `later` and `earlier` if it is equal for all times. Otherwise returns
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

/// Returns the period between the last repetition and an earlier one, or nothing if no two differ by a
/// constant. `microbatches` is the number of microbatches of one repetition.
std::optional<Period> period_of_last(std::span<const StageTimes> rows, std::int64_t microbatches) {
  for (std::size_t back = 1; back <= rows.size() / 2; ++back) {
    const auto amount = shift(rows[rows.size() - 1 - back], rows.back());
    if (amount) return Period{*amount, static_cast<std::int64_t>(back) * microbatches};
  }
  return std::nullopt;
}

/// Doubles the number of repetitions until there is a period, and returns it. `first_rows(n)` returns the
/// times of the first n repetitions, or none if the program hangs. `actions` is the number of actions of the
/// program. Returns nothing after 64 repetitions or too many actions.
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

/// Returns true if each repetition of the pass depends only on the clocks and queues at the end of the
/// repetition before. RepeatedTape can then run it.
bool is_repeated_by_tape(const Experiment& experiment, const FlatProgram& one_pass) {
  const bool has_collectives = !one_pass.next_member.empty();
  // A host may launch actions of the next pass before this pass ends. The clocks and queues do not contain
  // this.
  if (one_pass.has_launches) return false;
  // Messages of the next pass may wait for several messages of this pass. The tape does not connect the queue
  // registers of these messages, so it cannot repeat such a program.
  if (has_followers(one_pass, experiment.channels)) return false;
  // The launches of the next pass start only after the launches of this pass, which the clocks and queues do
  // not contain.
  if (has_launch_order(experiment.channels)) return false;
  return !has_collectives && experiment.channels.capacity == 0 && experiment.channels.eager_bytes == 0;
}

/// Returns the start and the end of the action at `position`, an index into the lists of the flat program.
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
        // The flat program has a barrier after each iteration except the last. The barrier is in no list, so
        // it is skipped.
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

/// Returns the period of an experiment with one iteration. `run` is a run of this iteration.
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

// A stream is one long pass. The actions of one microbatch, rank by rank, are compared with those of later
// microbatches. If as many consecutive microbatches as depend on each other have moved by one amount, all
// later times move by this amount, too.
//
//   rank 0:  F3 B0 F4 B1 F5 B2       microbatch 3: F3 at 0, B3 at 6 ...
//   rank 1:     F3 B3 F4 B4          microbatch 4: the same actions, each 3 later

namespace {

// --- runs -------------------------------------------------------------------------------------------------

/// An action of a run, with its rank and its times.
struct RunAction {
  std::int32_t rank = 0;
  const Action& action;
  std::array<Ns, 2> times{};
  bool opens_compute = false;  ///< true for a single compute action and for the first action of a group
};

/// Calls `see` for all actions, rank by rank, in program order.
template <class See>
void for_each_action(const EngineRun& run, const See& see) {
  const FlatProgram& flat = run.flat;
  for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) {
    const std::size_t end = index(flat.rank_begin[index(rank) + 1]);
    for (std::size_t p = index(flat.rank_begin[index(rank)]); p < end; ++p) {
      const std::int32_t message = flat.message[p];
      const std::array<Ns, 2> times = message == kNone ? std::array{run.times.start[p], run.times.end[p]}
                                                       : std::array{run.times.message_start[index(message)],
                                                                    run.times.message_end[index(message)]};
      see({.rank = rank,
           .action = flat.actions[p],
           .times = times,
           .opens_compute = flat.ops[p] == FlatOp::compute});
    }
  }
}

template <class See>
void for_each_action(const Timeline& run, const See& see) {
  for (const Spans& of_rank : spans_by_rank(run)) {
    for (std::size_t i = 0; i < of_rank.size(); ++i) {
      see({.rank = of_rank[i].rank,
           .action = of_rank[i].action,
           .times = {of_rank[i].start_ns, of_rank[i].end_ns},
           .opens_compute = opens_compute(of_rank, i)});
    }
  }
}

// --- depth ------------------------------------------------------------------------------------------------

/// Computes the depth, which is the number of microbatches that depend on each other. It is the largest
/// distance between the microbatches of two neighbours in a rank's list, plus one. In F4 B1 F5 B2,
/// microbatches 1 and 5 are neighbours with the distance 4, so the depth is 5. Actions without a
/// microbatch, such as STEP, are skipped.
class NeighbourDepth {
 public:
  explicit NeighbourDepth(std::size_t ranks) : before_(ranks, kNoMicrobatch) {}

  void note(std::int32_t rank, std::int32_t microbatch) {
    if (microbatch == kNoMicrobatch) return;
    std::int32_t& before = before_[index(rank)];
    if (before != kNoMicrobatch) depth_ = std::max(depth_, std::abs(microbatch - before) + 1);
    before = microbatch;
  }
  std::int32_t depth() const { return depth_; }

  // TurnTaking calls the next three functions, with the actions and messages that a lowered list has.
  void compute(std::int32_t rank, std::span<const Action> group) {
    for (const Action& action : group) note(rank, action.microbatch);
  }
  void message(const StageMessage& message, std::int32_t from_rank, std::int32_t to_rank) {
    note(from_rank, message.microbatch);
    note(to_rank, message.microbatch);
  }
  void collective(std::int32_t /*rank*/, const Action& /*action*/) {}

  // For each rank, the microbatch of its previous action.
 private:
  std::vector<std::int32_t> before_;
  std::int32_t depth_ = 1;
};

template <class Run>
std::size_t depth_of(const Run& run, const Program& program) {
  NeighbourDepth depth(program.ranks.size());
  for_each_action(run, [&](const RunAction& here) { depth.note(here.rank, here.action.microbatch); });
  return index(depth.depth());
}

// --- times by microbatch ----------------------------------------------------------------------------------

/// A table with a row for each microbatch, which contains its actions rank by rank in program order. All rows
/// are in one vector, because the search compares millions of rows.
class MicrobatchRows {
 public:
  template <class Run>
  MicrobatchRows(const Run& run, const Program& program) : begin_(index(program.microbatches) + 1, 0) {
    // The first pass counts the entries of each row, because all rows are in one vector.
    const auto for_rows = [&](const auto& act) {
      for_each_action(run, [&](const RunAction& here) {
        if (here.action.microbatch != kNoMicrobatch)
          act(index(here.action.microbatch / program.slices), here);
      });
    };
    for_rows([&](std::size_t row, const RunAction&) { ++begin_[row + 1]; });
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    entries_.resize(begin_.back());
    for_rows([&](std::size_t row, const RunAction& here) {
      entries_[next[row]++] = {.times = here.times,
                               .rank = here.rank,
                               .what = kKinds * static_cast<std::uint32_t>(here.action.stage) +
                                       static_cast<std::uint32_t>(here.action.kind)};
    });
  }

  std::size_t size() const { return begin_.size() - 1; }

  /// Returns the time from an action of row `earlier` to the corresponding action of row `later`, if it is
  /// equal for all actions. Returns nothing if the times or the actions differ.
  std::optional<Ns> shift(std::size_t earlier, std::size_t later) const {
    const std::span<const Entry> first = row(earlier);
    const std::span<const Entry> second = row(later);
    if (first.empty() || first.size() != second.size()) return std::nullopt;
    const Ns amount = second.front().times[0] - first.front().times[0];
    for (std::size_t i = 0; i < first.size(); ++i) {
      // Times are compared before stages and kinds, because most rows already differ in the first few times.
      if (second[i].times[0] - first[i].times[0] != amount) return std::nullopt;
      if (second[i].times[1] - first[i].times[1] != amount) return std::nullopt;
    }
    const bool same = std::ranges::equal(
        first, second, [](const Entry& a, const Entry& b) { return a.rank == b.rank && a.what == b.what; });
    return same ? std::optional(amount) : std::nullopt;
  }

 private:
  static constexpr auto kKinds = static_cast<std::uint32_t>(kActionKindCount);

  struct Entry {
    std::array<Ns, 2> times{};
    std::int32_t rank = 0;
    std::uint32_t what = 0;  ///< stage and kind of the action, as one number
  };

  std::span<const Entry> row(std::size_t number) const {
    return std::span(entries_).subspan(begin_[number], begin_[number + 1] - begin_[number]);
  }

  std::vector<std::size_t> begin_;  // index of the first entry of each microbatch
  std::vector<Entry> entries_;
};

/// Returns false if there are no `length` consecutive rows that are all repeated `back` rows later. It
/// checks only every `length`-th row, because any such sequence contains one of them.
bool may_repeat(const MicrobatchRows& rows, std::size_t depth, std::size_t back, std::size_t length) {
  for (std::size_t m = depth + length - 1; m + back + depth < rows.size(); m += length)
    if (rows.shift(m, m + back)) return true;
  return false;
}

/// Returns the period of the rows, or nothing. Ignores the first and the last `depth` rows, in which the
/// pipeline fills and drains.
std::optional<Period> period_of_rows(const MicrobatchRows& rows, std::size_t depth) {
  for (std::size_t back = 1; 3 * depth + 2 * back <= rows.size() && back <= 4 * depth; ++back) {
    // Most values of `back` are no period. may_repeat() excludes them with few comparisons.
    if (!may_repeat(rows, depth, back, depth + back)) continue;
    std::optional<Ns> common;
    std::size_t run = 0;
    for (std::size_t m = depth; m + back + depth < rows.size(); ++m) {
      const auto amount = rows.shift(m, m + back);
      run = !amount ? 0 : amount == common ? run + 1 : 1;
      common = amount;
      // The rows that have moved by one amount are as many as depend on each other, and one period more.
      // Therefore all later rows move by this amount as well.
      if (run >= depth + back) return Period{*amount, static_cast<std::int64_t>(back)};
    }
  }
  return std::nullopt;
}

// --- rounds -----------------------------------------------------------------------------------------------

/// Returns the end of the last compute action of each microbatch.
template <class Run>
std::vector<Ns> microbatch_ends(const Run& run, const Program& program) {
  std::vector<Ns> ends(index(program.microbatches), 0);
  for_each_action(run, [&](const RunAction& here) {
    if (!here.opens_compute || here.action.microbatch == kNoMicrobatch) return;
    Ns& end = ends[index(here.action.microbatch / program.slices)];
    end = std::max(end, here.times[1]);
  });
  return ends;
}

/// Returns the compute time of the busiest rank.
template <class Run>
Ns most_compute(const Run& run, std::size_t ranks) {
  std::vector<Ns> busy(ranks, 0);
  for_each_action(run, [&](const RunAction& here) {
    if (here.opens_compute) busy[index(here.rank)] += here.times[1] - here.times[0];
  });
  return busy.empty() ? 0 : std::ranges::max(busy);
}

template <class Run>
std::optional<Period> mean_of_rounds_in(const Run& run, const Program& program, std::int64_t round) {
  const auto depth = static_cast<std::int64_t>(depth_of(run, program));
  const std::int64_t rounds = (program.microbatches - 2 * depth) / round;
  if (rounds < 2) return std::nullopt;
  // Uses the last half of the rounds before the pipeline drains, because the pipeline is full then. It
  // compares the mean ends of two stretches of rounds, because single ends vary.
  const std::int64_t stretch = std::max<std::int64_t>(1, rounds / 4) * round;
  const auto last = program.microbatches - depth;
  const std::vector<Ns> ends = microbatch_ends(run, program);
  double moved_ns = 0;
  for (std::int64_t m = last - stretch; m < last; ++m)
    moved_ns += static_cast<double>(ends[index(m)] - ends[index(m - stretch)]);
  const auto mean = static_cast<Ns>(std::llround(moved_ns / static_cast<double>(stretch)));
  // The mean may be below the compute time of the busiest rank. This time is a lower bound, so it replaces a
  // smaller mean.
  const double share = static_cast<double>(stretch) / program.microbatches;
  const auto busy = static_cast<double>(most_compute(run, program.ranks.size()));
  return Period{std::max(mean, static_cast<Ns>(std::ceil(busy * share))), stretch};
}

}  // namespace

std::optional<Period> period_of_stream(const EngineRun& run, const Program& program) {
  return period_of_rows(MicrobatchRows(run, program), depth_of(run, program));
}
std::optional<Period> period_of_stream(const Timeline& run, const Program& program) {
  return period_of_rows(MicrobatchRows(run, program), depth_of(run, program));
}

std::optional<Period> mean_of_rounds(const EngineRun& run, const Program& program, std::int64_t round) {
  return mean_of_rounds_in(run, program, round);
}
std::optional<Period> mean_of_rounds(const Timeline& run, const Program& program, std::int64_t round) {
  return mean_of_rounds_in(run, program, round);
}

std::int32_t dependency_depth(const Program& program) {
  NeighbourDepth depth(program.ranks.size());
  if (!is_lowered(program)) {
    take_turns(program, depth);
    return depth.depth();
  }
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    for (const Action& action : program.ranks[index(rank)]) depth.note(rank, action.microbatch);
  }
  return depth.depth();
}

}  // namespace penstock
