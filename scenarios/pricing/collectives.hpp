#pragma once
// The time of collectives in groups of devices. A ring of n devices moves (n-1)/n of the tensor over each
// link, twice for an all-reduce; in an all-to-all each device keeps 1/n. Inside one NVLink domain measured
// tables are used instead. Between domains a group has the network cards of all its members in a domain
// (group_bytes_per_second in parallel.hpp).

#include <cstdint>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// Returns the seconds of a group's collective over a tensor of `bytes` (as in
/// KernelTables::collective_seconds). Inside one NVLink domain it uses the table, otherwise the rate of
/// the group's network cards and the network's latency.
double group_seconds(const Workload& work, const KernelTables& kernels, DeviceGroup group,
                     GroupOperation operation, double bytes);

/// Returns the seconds of a collective among all copies of weights, of `bytes` for each parameter, without
/// latency.
double copies_seconds(const Workload& work, const KernelTables& kernels, GroupOperation operation,
                      const DeviceParameters& parameters, double bytes);

}  // namespace penstock
