// Rates change only when a flow starts or ends on a link that others use; a flow whose rate does not
// change keeps the end that it has, so that unshared transfers stay exact to the nanosecond.

#include "sim/network/flow_network.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/network/max_min_share.hpp"
#include "topology/cluster.hpp"

namespace penstock {

FlowNetwork::FlowNetwork(const Cluster& cluster) : cluster_(cluster), users_(cluster.links().size(), 0) {
  for (const Link& link : cluster.links()) capacities_.push_back(link.bytes_per_second);
}

std::int32_t FlowNetwork::start(Ns now, std::int32_t from_device, std::int32_t to_device, Bytes bytes) {
  const Route route = cluster_.route(from_device, to_device);
  Flow flow{.number = next_number_++,
            .links = limited_links(route),
            .remaining_bytes = static_cast<double>(bytes),
            .bytes_per_second = route.bytes_per_second,
            .since_ns = now,
            .end_ns = now + serialization_ns(bytes, route.bytes_per_second)};
  for (const std::int32_t link : flow.links) ++users_[static_cast<std::size_t>(link)];
  const bool shares = any_shared(flow.links);
  flows_.push_back(std::move(flow));
  if (shares) share_again(now);
  return flows_.back().number;
}

void FlowNetwork::finish(Ns now, std::int32_t number) {
  const auto flow = std::ranges::find(flows_, number, &Flow::number);
  const std::vector<std::int32_t> links = std::move(flow->links);
  flows_.erase(flow);
  const bool shared = any_shared(links);
  for (const std::int32_t link : links) --users_[static_cast<std::size_t>(link)];
  if (shared) share_again(now);
}

std::optional<FlowNetwork::NextEnd> FlowNetwork::next_end() const {
  const auto first = std::ranges::min_element(flows_, {}, &Flow::end_ns);
  if (first == flows_.end()) return std::nullopt;
  return NextEnd{.time_ns = first->end_ns, .flow = first->number};
}

std::vector<std::int32_t> FlowNetwork::limited_links(const Route& route) const {
  std::vector<std::int32_t> limited;
  for (const std::int32_t link : route.links) {
    if (std::isfinite(capacities_[static_cast<std::size_t>(link)])) limited.push_back(link);
  }
  return limited;
}

bool FlowNetwork::any_shared(const std::vector<std::int32_t>& links) const {
  return std::ranges::any_of(links,
                             [&](std::int32_t link) { return users_[static_cast<std::size_t>(link)] > 1; });
}

void FlowNetwork::share_again(Ns now) {
  std::vector<std::vector<std::int32_t>> routes;
  routes.reserve(flows_.size());
  for (const Flow& flow : flows_) routes.push_back(flow.links);
  const std::vector<double> rates = max_min_share(capacities_, routes);
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    Flow& flow = flows_[i];
    if (rates[i] == flow.bytes_per_second) continue;
    const double elapsed_seconds = static_cast<double>(now - flow.since_ns) * 1e-9;
    flow.remaining_bytes = std::max(0.0, flow.remaining_bytes - elapsed_seconds * flow.bytes_per_second);
    flow.bytes_per_second = rates[i];
    flow.since_ns = now;
    flow.end_ns = now + static_cast<Ns>(std::ceil(flow.remaining_bytes / flow.bytes_per_second * 1e9 - 1e-6));
  }
}

}  // namespace penstock
