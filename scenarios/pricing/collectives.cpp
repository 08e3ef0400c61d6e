
#include "scenarios/pricing/collectives.hpp"

#include <algorithm>
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

/// Returns the seconds in which each device sends 1/n of `bytes` to each of the others. The k members of a
/// domain send k buffers over k network cards, so each sends its own over its own card. What stays inside the
/// domain goes over NVLink at the same time.
double all_to_all_seconds(const Workload& work, const Ring& ring, double bytes) {
  const auto n = static_cast<double>(ring.devices);
  const double in_domain =
      n / static_cast<double>(group_domains(work.parallel, work.ranks, ring.group, work.device));
  const double outside_s = (n - in_domain) / n * bytes / work.device.link_bytes_per_second(false);
  const double inside_s = std::max(0.0, in_domain - 1) / n * bytes / work.device.link_bytes_per_second(true);
  return std::max(outside_s, inside_s);
}

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
  if (operation == GroupOperation::all_to_all) return all_to_all_seconds(work, ring, bytes) + ring.latency_s;
  const double passes = operation == GroupOperation::all_reduce ? 2 : 1;
  const double rate = group_bytes_per_second(work.parallel, work.ranks, ring.group, work.device);
  return passes * (n - 1) / n * bytes / rate + ring.latency_s;
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
  for (const auto& [group, held] : {std::pair{DeviceGroup::data, parameters.dense},
                                    std::pair{DeviceGroup::expert_copies, parameters.expert}}) {
    const Ring ring{.group = group, .devices = group_size(parallel, work.ranks, group)};
    seconds += seconds_of(work, kernels, ring, operation, bytes * held);
  }
  return seconds;
}

}  // namespace penstock
