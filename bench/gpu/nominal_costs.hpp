#pragma once
// The work that gpu_validation gives its workers and links, before anything is measured. Needs no GPU.

#include <cstdint>
#include <string>

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

}  // namespace penstock
