#pragma once
// The rows of gpu_validation: the work of workers and links, predicted and measured times, errors, and the
// controls. It needs no GPU.

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

/// The bytes of every message. Activations and gradients have equal size.
constexpr Bytes kNominalMessage = Bytes{16} << 20;

/// Returns the approximate times of a stage's actions. If a rank has two virtual stages, each takes half of
/// the time.
StageCost nominal_cost(GpuWorkload workload, std::int32_t virtual_stages, bool first_half);

/// Returns the nominal cost of every stage of the program, with kNominalMessage over every edge.
CostTable nominal_costs(const Program& program, GpuWorkload workload);

constexpr double kTarget = 0.03;  ///< limit of the mean error, which was chosen before any run
constexpr double kGap = 0.03;     ///< if schedules differ by more, the prediction must rank them correctly
/// The numbers of runs of each row. Warm-up runs are not counted, and the median of the counted runs is the
/// measurement.
struct GpuRepeats {
  std::int32_t warmup = 3;
  std::int32_t counted = 10;
};

enum class GpuLinks : std::uint8_t {
  fast,   // as fast as the GPU copies
  paced,  // delayed to the times of stated links, which are slower
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
  std::string failure{};  ///< the reason why the row has no measurement; empty if it has one

  bool has_failed() const { return !failure.empty(); }
  /// Returns (predicted - measured) / measured. Requires a row that has not failed.
  double error() const {
    return static_cast<double>(predicted_ns - measured_ns) / static_cast<double>(measured_ns);
  }
};

/// Returns the mean absolute error over the measured rows that are not limited by bandwidth.
double mean_error(const std::vector<GpuRow>& rows);

/// Returns a sentence about the first schedule for which slower links made no difference in the prediction or
/// in the measurement. The measured difference must be at least half of the predicted one. Returns an empty
/// text if all pairs of rows that differ only in their links show a difference. The control detects empty
/// messages and links that are not delayed.
std::string unseen_pacing(const std::vector<GpuRow>& rows);

/// Returns a summary and the rows as Markdown. A failed row contains the reason.
std::string table_of(const std::vector<GpuRow>& rows, const std::string& device, const GpuRepeats& repeats);
std::string csv_of(const std::vector<GpuRow>& rows);

}  // namespace penstock
