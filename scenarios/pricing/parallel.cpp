// Numbers devices and finds which groups stay on one NVLink domain. Neighbours come first, as in the order
// tp-cp-ep-pp-dp:
//
//   device = t + T (c + C (p + P d))        t of T tensor, c of C context, p of P pipeline, d of D copies
//
// So tensor groups are adjacent, an edge of the pipeline connects devices at a distance of T C, and the
// members of a data-parallel group are T C P apart. A group of e devices for experts takes neighbours in (t,
// c) first and continues over copies. With T C = 2, P = 4 and 8 devices on an NVLink domain, a group of 8 has
// two in each domain:
//
//   domain   0          1          2          3
//            ee......   ee......   ee......   ee......
//
// Tested by pricing_test.cpp.

#include "scenarios/pricing/parallel.hpp"

#include <algorithm>
#include <cstdint>

#include "topology/device_types.hpp"

namespace penstock {

std::int64_t group_size(const Parallel& parallel, std::int32_t ranks, DeviceGroup group) {
  switch (group) {
    case DeviceGroup::tensor:
      return parallel.tensor;
    case DeviceGroup::context:
      return parallel.context;
    case DeviceGroup::expert:
      return parallel.expert;
    case DeviceGroup::pipeline:
      return ranks;
    case DeviceGroup::data:
      return std::int64_t{parallel.data} * parallel.context;
  }
  return 1;
}

std::int64_t group_span(const Parallel& parallel, std::int32_t ranks, DeviceGroup group) {
  const std::int64_t rank = parallel.devices_per_rank();  // these are adjacent in either order
  const bool stages_are_nearer = parallel.order == PlacementOrder::tp_cp_ep_pp_dp;
  // Returns the devices between the first and the last of `count` copies, including the stages between them.
  const auto over_copies = [&](std::int64_t count) {
    // A group of one copy stays inside its rank.
    if (count <= 1) return rank;
    return rank * count * (stages_are_nearer ? std::int64_t{ranks} : 1);
  };
  switch (group) {
    case DeviceGroup::tensor:
      return parallel.tensor;
    case DeviceGroup::context:
      return rank;
    case DeviceGroup::expert:
      return parallel.expert <= rank ? parallel.expert : over_copies((parallel.expert + rank - 1) / rank);
    case DeviceGroup::pipeline:
      // If copies are numbered before stages, all copies are between two stages.
      return rank * ranks * (stages_are_nearer ? 1 : std::int64_t{parallel.data});
    case DeviceGroup::data:
      return over_copies(parallel.data);
  }
  return 1;
}

bool is_on_nvlink(const Parallel& parallel, std::int32_t ranks, DeviceGroup group, const DeviceType& device) {
  return group_span(parallel, ranks, group) <= device.nvlink_devices;
}

double expert_domains(const Parallel& parallel, std::int32_t ranks, const DeviceType& device) {
  if (is_on_nvlink(parallel, ranks, DeviceGroup::expert, device)) return 1;
  const double domain = device.nvlink_devices;
  const double rank = parallel.devices_per_rank();
  // This is the number of adjacent devices that one rank, or all following ranks, fill without a gap.
  double together = domain;
  const bool goes_over_copies = parallel.expert > rank;
  if (goes_over_copies && parallel.order == PlacementOrder::tp_cp_ep_pp_dp) {
    // A domain contains the parts of all copies that begin on it, and of at least one copy.
    together = std::min(domain, rank * std::max(1.0, domain / (rank * ranks)));
  }
  return std::max(2.0, parallel.expert / together);
}

std::int64_t device_count(const Parallel& parallel, std::int32_t ranks) {
  return std::int64_t{parallel.devices_per_rank()} * ranks * parallel.data;
}

}  // namespace penstock
