#pragma once
// The rows of gpu_validation: the work that it gives its workers and links, predicted and measured times,
// their errors, and whether the rows pass the controls. Needs no GPU.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

enum class GpuWorkload : std::uint8_t {
  occupy,      // one thread waits for the stated time
  gemm,        // products of matrices in single precision on all SMs of the partition
  imbalanced,  // gemm on stages of unequal size
  bandwidth,   // copies within the GPU's memory, which all partitions share
};
std::string to_text(GpuWorkload workload);

/// Bytes of every message; activations and gradients are equal.
constexpr Bytes kNominalMessage = Bytes{16} << 20;

/// Returns the approximate times of a stage's actions. With two virtual stages each takes half as long.
StageCost nominal_cost(GpuWorkload workload, std::int32_t virtual_stages, bool first_half);

/// Returns the nominal cost of every stage of the program, with kNominalMessage over every edge.
CostTable nominal_costs(const Program& program, GpuWorkload workload);

constexpr double kTarget = 0.03;  ///< limit of the mean error; stated before any run
constexpr double kGap = 0.03;     ///< schedules that differ by more must be ranked correctly
/// The runs of each row: some that do not count, then those whose median is the measurement.
struct GpuRepeats {
  std::int32_t warmup = 3;
  std::int32_t counted = 10;
};

enum class GpuLinks : std::uint8_t {
  fast,   // as fast as the GPU copies
  paced,  // delayed to stated links, which are slower
};
std::string_view to_text(GpuLinks links);

struct GpuConfiguration {
  GpuWorkload workload = GpuWorkload::occupy;
  std::string schedule;
  std::int32_t virtual_stages = 1;
  std::int32_t workers = 2;
  std::int32_t microbatches = 4;
  GpuLinks link = GpuLinks::fast;
};

struct GpuRow {
  GpuConfiguration of;
  Ns predicted_ns = 0;
  Ns measured_ns = 0;
  std::string failure{};  ///< why nothing was measured; empty if something was

  bool has_failed() const { return !failure.empty(); }
  /// Returns predicted minus measured, relative to measured. Requires a row that has not failed.
  double error() const {
    return static_cast<double>(predicted_ns - measured_ns) / static_cast<double>(measured_ns);
  }
};

/// Returns the mean absolute error over the rows that were measured and are not bound by bandwidth.
double mean_error(const std::vector<GpuRow>& rows);

/// Returns a sentence about the first schedule that slower links did not make slower, in the prediction or in
/// the measurement (by at least half). Returns an empty text if every pair of rows that differs only in its
/// links shows them. This control fails if messages carry nothing or links are not delayed.
std::string unseen_pacing(const std::vector<GpuRow>& rows);

/// Returns the rows as Markdown, after the figures that summarize them. A row that failed has the reason.
std::string table_of(const std::vector<GpuRow>& rows, const std::string& device, const GpuRepeats& repeats);
std::string csv_of(const std::vector<GpuRow>& rows);

}  // namespace penstock
