// Fits latency and bandwidth of links. A message (hop) takes latency + bytes / bandwidth, so a line is fitted
// through the median times of each size. If the measured times scatter too much for a slope, the scenario's
// bandwidth is used and only the latency is fitted. Tests: tests/backend/calibration_test.cpp.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backend/calibration/calibrated_parts.hpp"
#include "backend/calibration/calibration.hpp"
#include "backend/calibration/calibration_samples.hpp"
#include "backend/calibration/line_fit.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "schedules/ir/action.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

constexpr std::size_t kInside = 0;  // links inside a server, or all links if the cluster is not two-level
constexpr std::size_t kBetween = 1;

/// Returns the kind of the link between two ranks. Rank r is on the r-th device of the cluster's device
/// order.
std::size_t kind_of_link(const ClusterSpec& spec, std::int32_t from, std::int32_t to) {
  const auto* shape = std::get_if<TwoLevelCluster>(&spec.shape);
  if (shape == nullptr) return kInside;
  const auto server = [&](std::int32_t device) {
    const std::int32_t number =
        shape->device_order.empty() ? device : shape->device_order[static_cast<std::size_t>(device)];
    return number / shape->devices_per_node;
  };
  return server(from) == server(to) ? kInside : kBetween;
}

std::string name_of_link(const ClusterSpec& spec, std::size_t kind) {
  if (!std::holds_alternative<TwoLevelCluster>(spec.shape)) return "between ranks";
  return kind == kInside ? "inside a server" : "between servers";
}

/// Returns the fitted latency and bandwidth of one kind of link. Uses the fitted bandwidth only if the slope
/// is larger than the scatter of the times.
LinkCalibration fitted_link(std::string name, const std::map<Bytes, std::vector<Ns>>& hops,
                            double bytes_per_second, Ns launch_ns) {
  LinkCalibration link{.name = std::move(name), .points = {}, .bytes_per_second = bytes_per_second};
  std::vector<LinePoint> medians;
  // For each size, the median time minus bytes / bandwidth of the scenario.
  std::vector<Ns> beside_bandwidth;
  Ns widest = 0;  // largest spread of the times of one size
  for (const auto& [bytes, times] : hops) {
    link.points.push_back({.bytes = bytes, .hop = spread_of(times)});
    const Spread& hop = link.points.back().hop;
    medians.push_back({static_cast<double>(bytes), static_cast<double>(hop.median_ns)});
    beside_bandwidth.push_back(hop.median_ns - serialization_ns(bytes, bytes_per_second));
    widest = std::max(widest, hop.middle_half_ns);
  }
  const Line line = fit_line(medians);
  const double gain = line.slope * (medians.back().x - medians.front().x);
  // Two conditions must hold. The times of different sizes differ by more than the spread of one size, and
  // the slope is more than twice its standard error.
  link.bandwidth_measured = gain > static_cast<double>(widest) && line.slope > 2 * line.slope_error;
  double latency = line.constant;
  if (link.bandwidth_measured) {
    link.bytes_per_second = 1e9 / line.slope;
  } else {
    latency = static_cast<double>(spread_of(beside_bandwidth).median_ns);
  }
  // A hop is measured from action to action, so it contains a launch. The launch is subtracted, because the
  // stages' overhead already contains it.
  link.latency_ns = std::max<Ns>(0, std::llround(latency) - launch_ns);
  return link;
}

const LinkCalibration* find_link(const std::vector<LinkCalibration>& links, const std::string& name) {
  const auto found = std::ranges::find(links, name, &LinkCalibration::name);
  return found == links.end() ? nullptr : &*found;
}

}  // namespace

std::vector<LinkCalibration> fitted_links(const std::vector<Hop>& hops, const ClusterSpec& spec,
                                          const Cluster& cluster, Ns launch_ns) {
  std::vector<LinkCalibration> links;
  for (const std::size_t kind : {kInside, kBetween}) {
    std::map<Bytes, std::vector<Ns>> times;
    double bytes_per_second = kUnlimitedBandwidth;
    for (const Hop& hop : hops) {
      if (kind_of_link(spec, hop.from_rank, hop.to_rank) != kind) continue;
      times[hop.bytes].push_back(hop.time_ns);
      bytes_per_second =
          std::min(bytes_per_second, cluster.route(hop.from_rank, hop.to_rank).bytes_per_second);
    }
    if (!times.empty())
      links.push_back(fitted_link(name_of_link(spec, kind), times, bytes_per_second, launch_ns));
  }
  return links;
}

std::optional<ClusterSpec> calibrated_cluster(const ClusterSpec& spec,
                                              const std::vector<LinkCalibration>& links) {
  ClusterSpec calibrated = spec;
  const LinkCalibration* inside = find_link(links, name_of_link(spec, kInside));
  if (auto* uniform = std::get_if<UniformCluster>(&calibrated.shape)) {
    if (inside == nullptr) return calibrated;
    uniform->latency_ns = inside->latency_ns;
    uniform->bytes_per_second = inside->bytes_per_second;
    return calibrated;
  }
  auto* shape = std::get_if<TwoLevelCluster>(&calibrated.shape);
  if (shape == nullptr) return std::nullopt;
  if (inside != nullptr) {
    shape->intra_latency_ns = inside->latency_ns;
    shape->intra_bytes_per_second = inside->bytes_per_second;
  }
  if (const LinkCalibration* between = find_link(links, name_of_link(spec, kBetween))) {
    // The latency of a route between servers also contains the latency inside a server, so it is subtracted.
    shape->inter_latency_ns = std::max<Ns>(0, between->latency_ns - shape->intra_latency_ns);
    shape->inter_bytes_per_second = between->bytes_per_second;
  }
  return calibrated;
}

}  // namespace penstock
