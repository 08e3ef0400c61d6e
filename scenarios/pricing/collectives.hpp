#pragma once
// What groups of devices take to tell each other what they hold.

#include <cstdint>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// Seconds of a collective of a group over a tensor of `bytes` (as KernelTables::collective_seconds has it):
/// by table inside one NVLink, by the network's bandwidth and latency beyond.
double group_seconds(const Workload& work, const KernelTables& kernels, DeviceGroup group,
                     GroupOperation operation, double bytes);

/// Seconds of a collective of all copies of weights, of `bytes` for each of the parameters; without latency.
double copies_seconds(const Workload& work, const KernelTables& kernels, GroupOperation operation,
                      const DeviceParameters& parameters, double bytes);

}  // namespace penstock
