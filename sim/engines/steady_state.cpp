// Runs a few repetitions and compares all start and end times of one with those of an earlier one. A
// deterministic program is a max-plus linear system, x(i + 1) = A (x) x(i), so that once two repetitions
// differ by one constant in all times, every later pair does (Baccelli, Cohen, Olsder and Quadrat,
// Synchronization and Linearity, 1992, chapter 3); that constant over the microbatches between them is the
// period. A single long pass is compared microbatch by microbatch.

#include "sim/engines/steady_state.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"

namespace penstock {
namespace {

/// The spans of one repetition, or of one microbatch, in a fixed order.
using Row = std::vector<const Span*>;

/// By how much `later` runs after `earlier`: one common amount for all starts and ends, or nothing.
std::optional<Ns> shift(const Row& earlier, const Row& later) {
  if (earlier.empty() || earlier.size() != later.size()) return std::nullopt;
  const Ns amount = later.front()->start_ns - earlier.front()->start_ns;
  for (std::size_t i = 0; i < earlier.size(); ++i) {
    const Span& a = *earlier[i];
    const Span& b = *later[i];
    const bool same_place =
        a.rank == b.rank && a.action.kind == b.action.kind && a.action.stage == b.action.stage;
    if (!same_place || b.start_ns - a.start_ns != amount || b.end_ns - a.end_ns != amount)
      return std::nullopt;
  }
  return amount;
}

std::vector<Row> rows_by_iteration(const Timeline& timeline, const Program& program,
                                   std::int32_t iterations) {
  std::vector<Row> rows(static_cast<std::size_t>(iterations));
  std::size_t next = 0;
  for (const std::vector<Action>& list : program.ranks) {
    for (Row& row : rows) {
      for (std::size_t i = 0; i < list.size(); ++i) row.push_back(&timeline.spans[next++]);
    }
  }
  return rows;
}

std::optional<Period> period_of_repetitions(const Experiment& experiment, Engine engine) {
  constexpr std::size_t kMostActions = 1U << 23U;
  std::size_t actions = 1;
  for (const auto& list : experiment.program.ranks) actions += list.size();
  Experiment repeated = experiment;
  for (std::int32_t iterations = 2; iterations <= 64; iterations *= 2) {
    if (iterations > 2 && actions * static_cast<std::size_t>(iterations) > kMostActions) return std::nullopt;
    repeated.program.iterations = iterations;
    const auto timeline = run_engine(repeated, engine);
    if (!timeline) return std::nullopt;
    const std::vector<Row> rows = rows_by_iteration(*timeline, repeated.program, iterations);
    for (std::size_t back = 1; back <= rows.size() / 2; ++back) {
      const auto amount = shift(rows[rows.size() - 1 - back], rows.back());
      if (amount) return Period{*amount, static_cast<std::int64_t>(back) * experiment.program.microbatches};
    }
  }
  return std::nullopt;
}

std::vector<Row> rows_by_microbatch(const Timeline& timeline, const Program& program) {
  std::vector<Row> rows(index(program.microbatches));
  for (const Span& span : timeline.spans) {
    if (span.action.microbatch == kNoMicrobatch) continue;
    rows[index(span.action.microbatch / program.slices)].push_back(&span);
  }
  return rows;
}

/// The period of the rows that are neither among the first nor the last `depth`.
std::optional<Period> period_of_rows(const std::vector<Row>& rows, std::size_t depth) {
  for (std::size_t back = 1; 3 * depth + 2 * back <= rows.size() && back <= 4 * depth; ++back) {
    std::optional<Ns> common;
    std::size_t run = 0;
    for (std::size_t m = depth; m + back + depth < rows.size(); ++m) {
      const auto amount = shift(rows[m], rows[m + back]);
      run = !amount ? 0 : amount == common ? run + 1 : 1;
      common = amount;
      if (run >= depth + back) return Period{*amount, static_cast<std::int64_t>(back)};
    }
  }
  return std::nullopt;
}

std::optional<Period> period_of_single_pass(const Experiment& experiment, Engine engine) {
  Experiment once = experiment;
  once.program.iterations = 1;
  const auto timeline = run_engine(once, engine);
  if (!timeline) return std::nullopt;
  return period_of_stream(*timeline, once.program);
}

}  // namespace

double samples_per_second(const Period& period, double samples_per_microbatch) {
  return static_cast<double>(period.microbatches) * samples_per_microbatch * 1e9 /
         static_cast<double>(period.period_ns);
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

std::optional<Period> period_of_stream(const Timeline& timeline, const Program& program) {
  return period_of_rows(rows_by_microbatch(timeline, program),
                        static_cast<std::size_t>(dependency_depth(program)));
}

std::optional<Period> steady_period(const Experiment& experiment, Engine engine) {
  if (experiment.program.update == UpdateRule::microbatch) return period_of_single_pass(experiment, engine);
  return period_of_repetitions(experiment, engine);
}

}  // namespace penstock
