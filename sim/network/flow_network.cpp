// Advances flows that share links, from one start or end to the next. All flows of one class have the same
// rate r. So they end in the order of the bytes that they still need, however r changes. V is the number of
// bytes that a flow has received if it was present all the time. It is the virtual time of fair queueing
// (Demers, Keshav and Shenker, SIGCOMM 1989). A flow of S bytes that starts at V ends at V + S:
//
//     V(t) = V(t0) + r (t - t0)
//     first end = t + (least V + S of its flows - V(t)) / r, rounded up to ns
//
// A start, an end or a new rate therefore costs a class one heap operation, for any number of flows. The ends
// of all classes are the leaves of a tournament tree: each node holds the earlier end of its two children. A
// new end updates the nodes from its leaf to the root.
//
// Rates are computed only when the next end is needed, so several starts at one instant need one computation.
// A class with an unchanged rate retains its end. Transfers that share no link therefore stay exact to the
// nanosecond. Tests: tests/sim/contention_test.cpp.

#include "sim/network/flow_network.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

/// Returns the least whole number that is not less than `number`. Requires a number greater than -1.
Ns rounded_up(double number) {
  const auto whole = static_cast<Ns>(number);
  return whole + (static_cast<double>(whole) < number ? 1 : 0);
}

}  // namespace

FlowNetwork::FlowNetwork(const Cluster& cluster) : cluster_(cluster) {}

void FlowNetwork::start(Ns now, std::int32_t number, Bytes bytes, std::int32_t owner) {
  // All flows that start at one instant need one computation of the rates.
  if (now != now_ns_) update_rates();
  now_ns_ = now;
  FlowClass& flow_class = classes_[index(number)];
  if (flow_class.flows.empty()) {
    // An empty class counts from 0 again. So a flow that is never shared has exactly the same price as on
    // links that are not shared.
    flow_class.carried_bytes = 0;
    flow_class.since_ns = now;
  } else {
    advance(flow_class);
  }
  flow_class.flows.push_back({.end_bytes = flow_class.carried_bytes + static_cast<double>(bytes),
                              .number = started_++,
                              .owner = owner});
  std::ranges::push_heap(flow_class.flows, std::greater<>());
  share_.start(number);
}

std::optional<Ns> FlowNetwork::next_end() {
  update_rates();
  if (ends_.empty()) return std::nullopt;
  // The end at the root may be entered too early. Once it is entered again, another class may end first.
  while (classes_[index(ends_[1].flow_class)].ends_later) enter_end(ends_[1].flow_class);
  if (ends_[1].time_ns == kNever) return std::nullopt;
  return ends_[1].time_ns;
}

std::int32_t FlowNetwork::finish() {
  // next_end() has left the correct first end at the root.
  const std::int32_t number = ends_[1].flow_class;
  FlowClass& flow_class = classes_[index(number)];
  now_ns_ = flow_class.end_ns;
  advance(flow_class);
  share_.finish(number);
  std::ranges::pop_heap(flow_class.flows, std::greater<>());
  const std::int32_t owner = flow_class.flows.back().owner;
  flow_class.flows.pop_back();
  return owner;
}

/// Updates the rates and ends of all classes in which a flow has started or finished.
void FlowNetwork::update_rates() {
  for (const std::int32_t number : share_.solve()) set_rate(number, share_.rate(number));
}

void FlowNetwork::set_rate(std::int32_t number, double bytes_per_second) {
  FlowClass& flow_class = classes_[index(number)];
  const std::int64_t ends_first = flow_class.flows.empty() ? -1 : flow_class.flows.front().number;
  // Neither the rate nor the first flow has changed. Computing its end again would round it again.
  if (flow_class.bytes_per_second == bytes_per_second && flow_class.ends_first == ends_first) return;
  advance(flow_class);
  // A slower flow ends later than its entry in the tree. next_end() corrects the entry when it reaches the
  // root.
  flow_class.ends_later =
      bytes_per_second < flow_class.bytes_per_second && flow_class.ends_first == ends_first;
  flow_class.bytes_per_second = bytes_per_second;
  flow_class.ends_first = ends_first;
  if (!flow_class.ends_later) enter_end(number);
}

void FlowNetwork::enter_end(std::int32_t number) {
  FlowClass& flow_class = classes_[index(number)];
  advance(flow_class);
  flow_class.ends_later = false;
  flow_class.end_ns = first_end(flow_class);
  enter({flow_class.end_ns, number});
}

void FlowNetwork::advance(FlowClass& flow_class) const {
  if (now_ns_ == flow_class.since_ns) return;  // the rate may be infinite, and 0 x infinity is not a number
  const double elapsed_seconds = static_cast<double>(now_ns_ - flow_class.since_ns) * 1e-9;
  flow_class.carried_bytes += elapsed_seconds * flow_class.bytes_per_second;
  flow_class.since_ns = now_ns_;
}

/// Returns the time at which the class's first flow ends. Requires that the class has been advanced to
/// now_ns_.
Ns FlowNetwork::first_end(const FlowClass& flow_class) const {
  if (flow_class.flows.empty()) return kNever;
  const double left_bytes = flow_class.flows.front().end_bytes - flow_class.carried_bytes;
  // The flow has had one rate since its start, so the integer formula for unshared links applies.
  if (flow_class.carried_bytes == 0)
    return now_ns_ + serialization_ns(static_cast<Bytes>(left_bytes), flow_class.bytes_per_second);
  const double left_ns = std::max(0.0, left_bytes) / flow_class.bytes_per_second * 1e9;
  // Rounding errors of doubles must not add a whole nanosecond to the end.
  return now_ns_ + rounded_up(left_ns - 1e-6);
}

void FlowNetwork::enter(End end) {
  // Leaves are the upper half of the array. Node n has the children 2n and 2n + 1, and the root 1 holds the
  // first end.
  std::size_t node = ends_.size() / 2 + index(end.flow_class);
  ends_[node] = end;
  while (node > 1) {
    node /= 2;
    const bool right = ends_[2 * node + 1].time_ns < ends_[2 * node].time_ns;
    ends_[node] = ends_[2 * node + (right ? 1 : 0)];
  }
}

/// Doubles the number of leaves if the tree has fewer leaves than there are classes.
void FlowNetwork::add_leaves() {
  if (classes_.size() <= ends_.size() / 2) return;
  // The leaves have moved, so all ends must be entered again.
  ends_.assign(std::max(std::size_t{2}, 2 * ends_.size()), {});
  for (std::size_t i = 0; i < classes_.size(); ++i) enter({classes_[i].end_ns, static_cast<std::int32_t>(i)});
}

std::int32_t FlowNetwork::class_of(std::int32_t from_device, std::int32_t to_device) {
  const std::int64_t pair = std::int64_t{from_device} * cluster_.device_count() + to_device;
  const auto [entry, is_new] = class_of_pair_.try_emplace(pair);
  if (is_new) entry->second = class_of_route(cluster_.route(from_device, to_device));
  return entry->second;
}

std::int32_t FlowNetwork::class_of_route(const Route& route) {
  // Links of unlimited bandwidth do not slow any flow, so routes that differ only in them share a class.
  const std::vector<std::int32_t> limited = limited_links(route);
  const auto [entry, is_new] = class_of_links_.try_emplace(limited, 0);
  if (is_new) {
    entry->second = share_.add_class(limited);
    classes_.emplace_back();
    add_leaves();
  }
  return entry->second;
}

/// Returns the numbers in share_ of the route's links of limited bandwidth.
std::vector<std::int32_t> FlowNetwork::limited_links(const Route& route) {
  std::vector<std::int32_t> limited;
  for (const LinkNumber link : route.links) {
    const double capacity = cluster_.link_bytes_per_second(link);
    if (std::isinf(capacity)) continue;
    const auto [entry, is_new] = number_of_link_.try_emplace(link, 0);
    if (is_new) entry->second = share_.add_link(capacity);
    limited.push_back(entry->second);
  }
  return limited;
}

}  // namespace penstock
