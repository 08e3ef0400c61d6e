#pragma once
// What gpu_validation asks its workers and links for, before anything is measured. Needs no GPU.

#include <cstdint>
#include <string>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

enum class GpuWorkload : std::uint8_t {
  occupy,      // one thread waits for the stated time
  gemm,        // products of matrices, single precision, all SMs of the partition
  imbalanced,  // gemm on stages of unequal size
  bandwidth,   // copies within the GPU's memory, which all partitions share
};
std::string to_text(GpuWorkload workload);

/// Bytes of every message, activations and gradients alike.
constexpr Bytes kNominalMessage = Bytes{16} << 20;

/// What the actions of a stage are to take about: of two virtual stages half as long each.
StageCost nominal_cost(GpuWorkload workload, std::int32_t virtual_stages, bool first_half);

/// The same of every stage of the program, and kNominalMessage over every edge.
CostTable nominal_costs(const Program& program, GpuWorkload workload);

}  // namespace penstock
