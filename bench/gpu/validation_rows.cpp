// Compares rows that differ only in their links. If slower links made no difference, an error of 3 % would
// mean little, because prediction and measurement could have the same mistake.

#include "bench/gpu/validation_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "text/escaping.hpp"

namespace penstock {

namespace {

/// Returns true if the target applies to the row. It does not apply to rows that are limited by bandwidth.
/// All workers share the memory, and a cost table does not contain how many of them use it at the same time.
bool counts(const GpuRow& row) { return !row.has_failed() && row.of.workload != GpuWorkload::bandwidth; }

/// Returns true if two rows differ only in their schedule.
bool comparable(const GpuRow& a, const GpuRow& b) {
  return a.of.workload == b.of.workload && a.of.workers == b.of.workers &&
         a.of.microbatches == b.of.microbatches && a.of.link == b.of.link;
}

struct Ranking {
  std::int32_t pairs = 0;  ///< the number of pairs with measured times that differ by more than kGap
  std::int32_t right = 0;
};

/// Compares each pair of comparable rows once.
Ranking ranking_of(const std::vector<GpuRow>& rows) {
  Ranking ranking;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!counts(rows[i]) || !comparable(rows[i], rows[j])) continue;
      const auto shorter = static_cast<double>(std::min(rows[i].measured_ns, rows[j].measured_ns));
      const auto gap = static_cast<double>(rows[i].measured_ns - rows[j].measured_ns);
      if (std::abs(gap) <= kGap * shorter) continue;
      ++ranking.pairs;
      const bool longer_predicted = rows[i].predicted_ns > rows[j].predicted_ns;
      if (longer_predicted == (gap > 0)) ++ranking.right;
    }
  }
  return ranking;
}

/// Returns the mean error of the chosen rows, or 0 if there are none.
double mean_error_where(const std::vector<GpuRow>& rows, const std::function<bool(const GpuRow&)>& chosen) {
  double sum = 0;
  double count = 0;
  for (const GpuRow& row : rows) {
    if (!chosen(row)) continue;
    sum += std::abs(row.error());
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

/// Returns true if two rows differ only in their links.
bool differ_in_links(const GpuRow& fast, const GpuRow& paced) {
  return !fast.has_failed() && !paced.has_failed() && fast.of.link == GpuLinks::fast &&
         paced.of.link == GpuLinks::paced && fast.of.workload == paced.of.workload &&
         fast.of.schedule == paced.of.schedule && fast.of.workers == paced.of.workers &&
         fast.of.microbatches == paced.of.microbatches;
}

/// Returns "control failed: gemm, 1f1b K=4 M=8 is measured to take ...". `how` is "predicted" or "measured".
std::string as_slow_as(const GpuConfiguration& of, std::string_view how, Ns fast_ns, Ns paced_ns) {
  return fmt::format(
      "control failed: {}, {} K={} M={} is {} to take {:.3f} ms on fast links and {:.3f} ms on paced ones, "
      "which must take longer",
      to_text(of.workload), of.schedule, of.workers, of.microbatches, how,
      1e-6 * static_cast<double>(fast_ns), 1e-6 * static_cast<double>(paced_ns));
}

/// Returns true if the measured difference is at least half of the predicted difference. A difference of a
/// few microseconds would not prove that links are paced.
bool is_seen(const GpuRow& fast, const GpuRow& paced) {
  return 2 * (paced.measured_ns - fast.measured_ns) >= paced.predicted_ns - fast.predicted_ns;
}

}  // namespace

std::string_view to_text(GpuLinks links) { return links == GpuLinks::fast ? "fast" : "paced"; }

double mean_error(const std::vector<GpuRow>& rows) { return mean_error_where(rows, counts); }

std::string unseen_pacing(const std::vector<GpuRow>& rows) {
  for (const GpuRow& fast : rows) {
    for (const GpuRow& paced : rows) {
      if (!differ_in_links(fast, paced)) continue;
      if (paced.predicted_ns <= fast.predicted_ns)
        return as_slow_as(fast.of, "predicted", fast.predicted_ns, paced.predicted_ns);
      if (!is_seen(fast, paced)) return as_slow_as(fast.of, "measured", fast.measured_ns, paced.measured_ns);
    }
  }
  return "";
}

std::string table_of(const std::vector<GpuRow>& rows, const std::string& device, const GpuRepeats& repeats) {
  const Ranking ranking = ranking_of(rows);
  std::string text = fmt::format(
      "Target, stated before the run: mean absolute error {:g} % or less over all but the bandwidth-bound "
      "rows.\n\n"
      "{}; {} warm-ups and the median of {} runs each.\n\nMean absolute error: {:.2f} % over {} rows; "
      "bandwidth-bound "
      "apart: {:.2f} %. Schedules ranked right where measured times differ by over {:g} %: {} of {} "
      "pairs.\n\n"
      "| workload | schedule | K | M | links | predicted | measured | error "
      "|\n|---|---|---|---|---|---|---|---|\n",
      100 * kTarget, device, repeats.warmup, repeats.counted, 100 * mean_error(rows),
      std::ranges::count_if(rows, counts),
      100 * mean_error_where(rows, [](const GpuRow& row) { return !row.has_failed() && !counts(row); }),
      100 * kGap, ranking.right, ranking.pairs);
  for (const GpuRow& row : rows) {
    text += fmt::format("| {} | {} | {} | {} | {} | {:.3f} ms |", to_text(row.of.workload), row.of.schedule,
                        row.of.workers, row.of.microbatches, to_text(row.of.link),
                        1e-6 * static_cast<double>(row.predicted_ns));
    text += row.has_failed() ? fmt::format(" failed: {} | |\n", row.failure)
                             : fmt::format(" {:.3f} ms | {:+.2f} % |\n",
                                           1e-6 * static_cast<double>(row.measured_ns), 100 * row.error());
  }
  return text;
}

std::string csv_of(const std::vector<GpuRow>& rows) {
  std::string text = "workload,schedule,workers,microbatches,links,predicted_ns,measured_ns,error,failure\n";
  for (const GpuRow& row : rows) {
    text += fmt::format("\"{}\",{},{},{},{},{},", to_text(row.of.workload), row.of.schedule, row.of.workers,
                        row.of.microbatches, to_text(row.of.link), row.predicted_ns);
    text += row.has_failed() ? fmt::format(",,{}\n", csv_field(row.failure))
                             : fmt::format("{},{:.5f},\n", row.measured_ns, row.error());
  }
  return text;
}

// Actions take long compared with a launch, and a message of 16 MiB takes long compared with the start of a
// copy. So schedules are compared, and not overheads.

namespace {

/// Returns the forward time of a rank. It is divided among the rank's virtual stages.
Ns forward_of(GpuWorkload workload) {
  return workload == GpuWorkload::gemm || workload == GpuWorkload::imbalanced ? 5'000'000 : 2'000'000;
}

}  // namespace

std::string to_text(GpuWorkload workload) {
  switch (workload) {
    case GpuWorkload::occupy:
      return "occupy";
    case GpuWorkload::gemm:
      return "gemm";
    case GpuWorkload::imbalanced:
      return "gemm, imbalanced";
    case GpuWorkload::bandwidth:
      return "bandwidth";
  }
  return "";
}

StageCost nominal_cost(GpuWorkload workload, std::int32_t virtual_stages, bool first_half) {
  const Ns whole = forward_of(workload) / virtual_stages;
  const Ns forward = workload == GpuWorkload::imbalanced && first_half ? whole * 3 / 5 : whole;
  return {.forward_ns = forward,
          .backward_ns = 2 * forward,
          .backward_input_ns = forward,
          .backward_weight_ns = forward,
          .recompute_ns = forward,
          .kept = 1};
}

CostTable nominal_costs(const Program& program, GpuWorkload workload) {
  const std::int32_t stages = program.stage_count();
  const std::int32_t virtual_stages = stages / program.rank_count();
  CostTable costs = uniform_costs(program, {}, {.activation = kNominalMessage, .gradient = kNominalMessage});
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    costs.stages[static_cast<std::size_t>(stage)] =
        nominal_cost(workload, virtual_stages, stage < stages / 2);
  }
  return costs;
}

}  // namespace penstock
