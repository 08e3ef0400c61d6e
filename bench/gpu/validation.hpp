#pragma once
// Compares predictions with measurements on one GPU that is divided into workers. One call measures the whole
// matrix.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/gpu/validation_rows.hpp"

namespace penstock {

struct ValidationRequest {
  bool quick = false;  ///< fewer microbatches and repeats, and every schedule only for four workers
  /// True to run all schedules of the table for work with stated times and fast links. All other rows use
  /// five schedules.
  bool every_schedule = true;
  std::vector<std::int32_t> workers = {2, 4, 8};
  std::vector<GpuWorkload> workloads = {GpuWorkload::occupy, GpuWorkload::gemm, GpuWorkload::imbalanced,
                                        GpuWorkload::bandwidth};
  /// The file of the table. It is written again after each row, and so is FILE.csv. If the name is empty,
  /// there are no files.
  std::string file{};
  std::function<void(const std::string& line)> print;
};

enum class ValidationOutcome : std::uint8_t {
  good,
  failed,  // a row, a control or a file failed, or the target was missed
  no_gpu,
};

/// Measures and prints the rows. If a row fails, it is reported as failed, and the next row follows. Throws
/// the device's exceptions outside of rows.
ValidationOutcome validate(const ValidationRequest& request);

}  // namespace penstock
