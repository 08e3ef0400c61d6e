
#include "scenarios/pricing/collectives.hpp"

#include <cstdint>
#include <optional>
#include <utility>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/workload.hpp"
#include "topology/unit_factors.hpp"

namespace penstock {
namespace {

/// A ring of `devices`, which may be fewer than the whole group.
struct Ring {
  DeviceGroup group = DeviceGroup::data;
  std::int64_t devices = 1;
  double latency_s = 0;
};

double seconds_of(const Workload& work, const KernelTables& kernels, const Ring& ring,
                  GroupOperation operation, double bytes) {
  if (ring.devices <= 1 || bytes <= 0) return 0;
  const bool on_nvlink = is_on_nvlink(work.parallel, work.ranks, ring.group, work.device);
  std::optional<double> measured;
  // The tables were measured on one NVLink domain, so they do not apply to the network.
  if (on_nvlink)
    measured = kernels.collective_seconds(operation, static_cast<std::int32_t>(ring.devices), bytes);
  if (measured) return *measured;
  const auto n = static_cast<double>(ring.devices);
  const double passes = operation == GroupOperation::all_reduce ? 2 : 1;
  return passes * (n - 1) / n * bytes / work.device.link_bytes_per_second(on_nvlink) + ring.latency_s;
}

}  // namespace

double group_seconds(const Workload& work, const KernelTables& kernels, DeviceGroup group,
                     GroupOperation operation, double bytes) {
  const Ring ring{.group = group,
                  .devices = group_size(work.parallel, work.ranks, group),
                  .latency_s = static_cast<double>(work.device.link_latency_ns) * kSecondsPerNanosecond};
  return seconds_of(work, kernels, ring, operation, bytes);
}

double copies_seconds(const Workload& work, const KernelTables& kernels, GroupOperation operation,
                      const DeviceParameters& parameters, double bytes) {
  const Parallel& parallel = work.parallel;
  // The collectives run one after the other on the same links. Experts have fewer copies than other weights.
  double seconds = 0;
  for (const auto& [copies, held] : {std::pair{parallel.weight_copies(), parameters.dense},
                                     std::pair{parallel.expert_copies(), parameters.expert}}) {
    seconds += seconds_of(work, kernels, {.devices = copies}, operation, bytes * held);
  }
  return seconds;
}

}  // namespace penstock
