#pragma once
// Compares predictions with measurements on one GPU that is divided into workers: the whole matrix, by one
// call.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/gpu/validation_rows.hpp"

namespace penstock {

struct ValidationRequest {
  bool quick = false;  ///< fewer microbatches and repeats, and every schedule only for four workers
  /// Runs all schedules of the table if work has stated times and links are fast. Otherwise runs five of
  /// them.
  bool every_schedule = true;
  std::vector<std::int32_t> workers = {2, 4, 8};
  std::vector<GpuWorkload> workloads = {GpuWorkload::occupy, GpuWorkload::gemm, GpuWorkload::imbalanced,
                                        GpuWorkload::bandwidth};
  /// File of the table, written again after each row, with FILE.csv beside it; empty: none.
  std::string file{};
  std::function<void(const std::string& line)> print;
};

enum class ValidationOutcome : std::uint8_t {
  good,
  failed,  // a row, a control or a file failed, or the target was missed
  no_gpu,
};

/// Measures and prints row by row. A row that fails is shown as failed, and the next one follows. Throws the
/// device's exceptions outside of rows.
ValidationOutcome validate(const ValidationRequest& request);

}  // namespace penstock
