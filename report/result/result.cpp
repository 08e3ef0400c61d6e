// Computes facts about a Result, and checks the invariants that every Result must satisfy. If an invariant
// does not hold, a computation was wrong. Such a result must not be printed, written or compared. Tests:
// tests/report/figures_test.cpp.

#include "report/result/result.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "report/print/memory_category.hpp"
#include "report/result/result_figures.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

double samples_of_copy(const Result& result) { return result.throughput.samples / result.program.copies; }

Bytes highest_peak_bytes(const Result& result) {
  Bytes peak = 0;
  for (const RankReport& rank : result.ranks) peak = std::max(peak, rank.memory.peak_bytes);
  return peak;
}

bool any_out_of_memory(const Result& result) {
  return std::ranges::any_of(result.ranks,
                             [](const RankReport& rank) { return rank.memory.out_of_memory(); });
}

namespace {

/// A checker of invariants. It stores only the first invariant that does not hold, because others often
/// follow from it.
class Invariants {
 public:
  /// Checks one invariant. `text` has the form "KEY: expected WHAT, got WHAT", where KEY is a key of the JSON
  /// document.
  template <typename... Parts>
  void expect(bool holds, fmt::format_string<const Parts&...> text, const Parts&... parts) {
    if (!holds && !fault_) fault_ = fmt::format(text, parts...);
  }
  const std::optional<std::string>& fault() const { return fault_; }

 private:
  std::optional<std::string> fault_;
};

/// Returns the time in ns by which an action may end after the makespan. It is positive only for
/// measurements, because the clocks of devices differ slightly.
Ns time_slack_ns(const Result& result) {
  return result.kind == ResultKind::measured ? result.makespan_ns / 1000 + 1 : 0;
}

/// Returns true if a time is between the start and the end of the run, up to the slack for measurements.
/// The slack is subtracted on the left side. If it were added on the right side, the sum could overflow 64
/// bits.
bool is_within(Ns time_ns, const Result& result) {
  return time_ns >= 0 && time_ns - time_slack_ns(result) <= result.makespan_ns;
}

/// Returns true if a figure is not negative. An absent figure is NaN and is accepted.
bool is_amount(double figure) { return !(figure < 0); }

void check_categories(Invariants& all, std::size_t rank, std::string_view key,
                      const MemoryByCategory& memory) {
  for (std::size_t i = 0; i < kMemoryCategoryCount; ++i) {
    all.expect(memory[i] >= 0, "ranks[{}].memory.{}.{}: expected at least 0, got {}", rank, key,
               to_text(static_cast<MemoryCategory>(i)), memory[i]);
  }
}

void check_memory(Invariants& all, std::size_t i, const RankMemory& memory, const Result& result) {
  all.expect(is_within(memory.peak_time_ns, result),
             "ranks[{}].memory.peak_time_ns: expected a time up to the makespan, {}, got {}", i,
             result.makespan_ns, memory.peak_time_ns);
  check_categories(all, i, "at_peak", memory.at_peak);
  check_categories(all, i, "peaks", memory.peaks);
  for (std::size_t sample = 0; sample < memory.samples.size(); ++sample) {
    const Ns time_ns = memory.samples[sample].time_ns;
    all.expect(is_within(time_ns, result),
               "ranks[{}].memory.samples[{}].time_ns: expected a time up to the makespan, {}, got {}", i,
               sample, result.makespan_ns, time_ns);
  }
}

void check_rank(Invariants& all, std::size_t i, const Result& result) {
  const RankReport& rank = result.ranks[i];
  all.expect(std::cmp_equal(rank.rank, i), "ranks[{}].rank: expected {}, got {}", i, i, rank.rank);
  for (const RankFigure& figure : figures_of_ranks()) {
    const std::int64_t value = figure.get(rank);
    if (figure.bound == FigureBound::not_negative) {
      all.expect(value >= 0, "ranks[{}].{}: expected at least 0, got {}", i, figure.key, value);
      continue;
    }
    const bool is_time = figure.bound == FigureBound::up_to_makespan
                             ? value >= -time_slack_ns(result) && value <= result.makespan_ns
                             : is_within(value, result);
    all.expect(is_time, "ranks[{}].{}: expected a time up to the makespan, {}, got {}", i, figure.key,
               result.makespan_ns, value);
  }
  check_memory(all, i, rank.memory, result);
}

/// Checks the figures of the run. In predictions only, the fraction of a device's peak rate must be at most
/// 1. A measured run may have used a faster device.
void check_run_figures(Invariants& all, const Result& result) {
  const bool is_measured = result.kind == ResultKind::measured;
  const double slack = is_measured ? 1e-3 : 1e-9;  // allows for different clocks, or for rounding
  for (const RunFigure& figure : figures_of_runs()) {
    const std::optional<double> value = figure.get(result);
    if (!value) continue;
    if (figure.bound == FigureBound::part) {
      // A comparison with NaN is false, so a NaN is reported as a fault.
      all.expect(*value >= -slack && *value <= 1 + slack, "{}.{}: expected a part in [0, 1], got {}",
                 figure.section, figure.key, *value);
      continue;
    }
    // Clocks of devices differ, so the ratio of idle to busy time may be slightly negative in a measurement.
    const double least =
        figure.unit == FigureUnit::part && figure.bound == FigureBound::not_negative ? -slack : 0;
    all.expect(is_amount(*value - least), "{}.{}: expected at least 0, got {}", figure.section, figure.key,
               *value);
    if (figure.bound == FigureBound::part_if_predicted && !is_measured) {
      all.expect(!(*value > 1 + slack), "{}.{}: expected a part of the devices' peak, at most 1, got {}",
                 figure.section, figure.key, *value);
    }
  }
}

}  // namespace

std::optional<std::string> broken_invariant(const Result& result) {
  Invariants all;
  all.expect(result.makespan_ns >= 0, "makespan_ns: expected at least 0, got {}", result.makespan_ns);
  all.expect(result.clock_error_ns.value_or(0) >= 0, "clock_error_ns: expected at least 0, got {}",
             result.clock_error_ns.value_or(0));
  all.expect(std::cmp_equal(result.ranks.size(), result.program.ranks),
             "ranks: expected as many as program.ranks says, {}, got {}", result.program.ranks,
             result.ranks.size());
  // Only data parallelism can have more stages than ranks. In this case the stages are gradient buckets, and
  // each rank holds all of them.
  const bool shares_all = result.program.schedule == "data-parallel";
  const std::int32_t most = shares_all ? result.program.stages : result.program.ranks;
  all.expect(result.program.pipeline_size <= most,
             "program.pipeline_size: expected at most program.{}, {}, got {}",
             shares_all ? "stages" : "ranks", most, result.program.pipeline_size);
  for (std::size_t i = 0; i < result.ranks.size(); ++i) check_rank(all, i, result);
  check_run_figures(all, result);
  for (std::size_t i = 0; i < result.links.size(); ++i) {
    const LinkTraffic& link = result.links[i];
    all.expect(link.bytes >= 0, "links[{}].bytes: expected at least 0, got {}", i, link.bytes);
  }
  for (std::size_t i = 0; i < result.timeline.spans.size(); ++i) {
    const Span& span = result.timeline.spans[i];
    all.expect(is_within(span.end_ns, result),
               "timeline[{}].end_ns: expected a time up to the makespan, {}, got {}", i, result.makespan_ns,
               span.end_ns);
  }
  return all.fault();
}

}  // namespace penstock
