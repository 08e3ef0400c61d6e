// Numbers devices and finds which groups stay on one NVLink domain. Neighbours come first:
//
//   tp-cp-ep-dp-pp   device = t + T (c + C (d + D p))   t of T tensor, c of C context, p of P pipeline,
//   tp-cp-ep-pp-dp   device = t + T (c + C (p + P d))   d of D copies
//
// In the second order tensor groups are adjacent, an edge of the pipeline connects devices at a distance of
// T C, and the members of a data-parallel group are T C P apart. A group of e devices for experts takes
// neighbours in (t, c) first and continues over copies. With T C = 2, P = 4 and 8 devices on an NVLink
// domain, a group of 8 has two in each domain:
//
//   domain   0          1          2          3
//            ee......   ee......   ee......   ee......
//
// Every group is a row of equally distant members that repeats at an equal distance:
//
//   x.x.....x.x.....x.x.....    2 members at a distance of 2, 3 times at a distance of 8
//
// A collective that crosses domains uses the network cards of all members in a domain. Two above, so it runs
// at the rate of two cards, but never faster than NVLink passes the data on inside the domain.
//
// Tested by pricing_test.cpp.

#include "scenarios/pricing/parallel.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
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
    case DeviceGroup::expert_copies:
      return parallel.expert_copies();
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
      if (ranks == 1) return rank;  // there is no edge
      // If copies are numbered before stages, all copies are between two stages.
      return rank * ranks * (stages_are_nearer ? 1 : std::int64_t{parallel.data});
    case DeviceGroup::data:
      return over_copies(parallel.data);
    case DeviceGroup::expert_copies:
      return parallel.expert_copies() <= 1 ? 1 : over_copies(parallel.data);
  }
  return 1;
}

bool is_on_nvlink(const Parallel& parallel, std::int32_t ranks, DeviceGroup group, const DeviceType& device) {
  return group_span(parallel, ranks, group) <= device.nvlink_devices;
}

namespace {

/// The members of a group: `inner` devices at a distance of `inner_stride`, which repeat `outer` times at a
/// distance of `outer_stride`.
struct Members {
  std::int64_t inner = 1;
  std::int64_t inner_stride = 1;
  std::int64_t outer = 1;
  std::int64_t outer_stride = 1;
};

Members members_of(const Parallel& parallel, std::int32_t ranks, DeviceGroup group) {
  const std::int64_t rank = parallel.devices_per_rank();
  const bool stages_are_nearer = parallel.order == PlacementOrder::tp_cp_ep_pp_dp;
  const std::int64_t copy = rank * (stages_are_nearer ? std::int64_t{ranks} : 1);
  switch (group) {
    case DeviceGroup::tensor:
      return {.inner = parallel.tensor};
    case DeviceGroup::context:
      return {.inner = parallel.context, .inner_stride = parallel.tensor};
    case DeviceGroup::expert:
      if (parallel.expert <= rank) return {.inner = parallel.expert};
      return {.inner = rank, .outer = (parallel.expert + rank - 1) / rank, .outer_stride = copy};
    case DeviceGroup::pipeline:
      return {.inner = ranks, .inner_stride = rank * (stages_are_nearer ? 1 : std::int64_t{parallel.data})};
    case DeviceGroup::data:
      return {.inner = parallel.context,
              .inner_stride = parallel.tensor,
              .outer = parallel.data,
              .outer_stride = copy};
    case DeviceGroup::expert_copies:
      // An expert group that fills a part of a rank has copies beside it in the same rank.
      if (parallel.expert <= rank) {
        return {.inner = rank / parallel.expert,
                .inner_stride = parallel.expert,
                .outer = parallel.data,
                .outer_stride = copy};
      }
      return {.outer = parallel.expert_copies(), .outer_stride = copy * (parallel.expert / rank)};
  }
  return {};
}

/// Returns the domains of `size` devices in which the members lie. If the repetitions are further apart than
/// a domain, each is taken to begin on a domain of its own.
std::int64_t domains_of(const Members& members, std::int64_t size) {
  const auto touched = [&](std::int64_t count, std::int64_t stride, std::int64_t beyond) {
    return ((count - 1) * stride + beyond) / size + 1;
  };
  if (members.inner_stride >= size) return members.inner * members.outer;
  if (members.outer_stride >= size) return members.outer * touched(members.inner, members.inner_stride, 0);
  return touched(members.outer, members.outer_stride, (members.inner - 1) * members.inner_stride);
}

}  // namespace

std::int64_t group_domains(const Parallel& parallel, std::int32_t ranks, DeviceGroup group,
                           const DeviceType& device) {
  if (is_on_nvlink(parallel, ranks, group, device)) return 1;
  // Another group of the kind may cross a domain's end although the first one does not.
  return std::max<std::int64_t>(2, domains_of(members_of(parallel, ranks, group), device.nvlink_devices));
}

double group_bytes_per_second(const Parallel& parallel, std::int32_t ranks, DeviceGroup group,
                              const DeviceType& device) {
  const double nvlink = device.link_bytes_per_second(true);
  const std::int64_t domains = group_domains(parallel, ranks, group, device);
  if (domains == 1) return nvlink;
  const double in_domain =
      static_cast<double>(group_size(parallel, ranks, group)) / static_cast<double>(domains);
  return std::min(std::max(1.0, in_domain) * device.link_bytes_per_second(false), nvlink);
}

bool orders_differ(Parallel parallel, std::int32_t ranks, const DeviceType& device) {
  // With one stage or one copy both orders number the devices equally.
  if (ranks == 1 || parallel.data == 1) return false;
  constexpr std::array kGroups = {DeviceGroup::expert, DeviceGroup::pipeline, DeviceGroup::data,
                                  DeviceGroup::expert_copies};
  std::array<std::array<std::int64_t, kGroups.size()>, 2> domains{};
  for (const PlacementOrder order : {PlacementOrder::tp_cp_ep_dp_pp, PlacementOrder::tp_cp_ep_pp_dp}) {
    parallel.order = order;
    for (std::size_t i = 0; i < kGroups.size(); ++i) {
      domains[static_cast<std::size_t>(order)][i] =
          kGroups[i] == DeviceGroup::pipeline
              ? std::int64_t{is_on_nvlink(parallel, ranks, kGroups[i], device)}
              : group_domains(parallel, ranks, kGroups[i], device);
    }
  }
  return domains[0] != domains[1];
}

std::int64_t device_count(const Parallel& parallel, std::int32_t ranks) {
  return std::int64_t{parallel.devices_per_rank()} * ranks * parallel.data;
}

}  // namespace penstock
