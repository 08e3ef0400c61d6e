#pragma once
// Predicted against measured on one GPU that is cut into workers: the whole matrix, by one call.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/gpu/nominal_costs.hpp"

namespace penstock {

struct ValidationRequest {
  bool quick = false;  ///< fewer microbatches
  std::vector<std::int32_t> workers = {2, 4, 8};
  std::vector<GpuWorkload> workloads = {GpuWorkload::occupy, GpuWorkload::gemm, GpuWorkload::imbalanced,
                                        GpuWorkload::bandwidth};
  std::string file{};  ///< of the table; FILE.csv goes beside it; empty: none
  std::function<void(const std::string& line)> print;
};

enum class ValidationOutcome : std::uint8_t {
  good,
  failed,  // a run, a control, or the target
  no_gpu,
};

/// Says each row when it is there. Throws what a device throws.
ValidationOutcome validate(const ValidationRequest& request);

}  // namespace penstock
