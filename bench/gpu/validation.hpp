#pragma once
// Predicted against measured on one GPU that is cut into workers: the whole matrix, by one call.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/gpu/nominal_costs.hpp"

namespace penstock {

struct ValidationRequest {
  bool quick = false;  ///< fewer microbatches and repeats, and every schedule for four workers only
  bool every_schedule =
      true;  ///< of the table, where work has stated times and links are fast; false: five of them
  std::vector<std::int32_t> workers = {2, 4, 8};
  std::vector<GpuWorkload> workloads = {GpuWorkload::occupy, GpuWorkload::gemm, GpuWorkload::imbalanced,
                                        GpuWorkload::bandwidth};
  std::string file{};  ///< of the table, written anew after each row, with FILE.csv beside it; empty: none
  std::function<void(const std::string& line)> print;
};

enum class ValidationOutcome : std::uint8_t {
  good,
  failed,  // a row, a control, a file, or the target
  no_gpu,
};

/// Measures and prints row by row. A row that fails is a row of the table, and the next one follows. Throws
/// what the device throws outside of rows.
ValidationOutcome validate(const ValidationRequest& request);

}  // namespace penstock
