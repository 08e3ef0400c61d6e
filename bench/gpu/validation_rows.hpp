#pragma once
// What gpu_validation answers: rows of predicted and measured times, how far they are apart, and whether they
// show what they must. Needs no GPU.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/gpu/nominal_costs.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

constexpr double kTarget = 0.03;  ///< the mean error; stated before any run
constexpr double kGap = 0.03;     ///< schedules that differ by more must be ranked right
constexpr std::int32_t kWarmup = 3;
constexpr std::int32_t kRepeats = 10;

enum class GpuLinks : std::uint8_t {
  fast,   // as fast as the GPU copies
  paced,  // held back to stated links, which are slower
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

  double error() const {
    return static_cast<double>(predicted_ns - measured_ns) / static_cast<double>(measured_ns);
  }
};

/// The mean absolute error over all but the bandwidth-bound rows.
double mean_error(const std::vector<GpuRow>& rows);

/// The first schedule that slower links did not make slower, predicted, or measured by half of that, as a
/// sentence; empty when every pair of rows that differs in its links alone shows them. Messages that carry
/// nothing fail here, and links that are not held back.
std::string unseen_pacing(const std::vector<GpuRow>& rows);

/// The rows under what they amount to, as Markdown.
std::string table_of(const std::vector<GpuRow>& rows, const std::string& device);
std::string csv_of(const std::vector<GpuRow>& rows);

}  // namespace penstock
