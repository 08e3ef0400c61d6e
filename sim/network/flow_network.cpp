// Advances flows that share links, from one start or end of a flow to the next. All flows of one class
// have the same rate r at any time. So they end in the order of their remaining bytes, even if r changes.
// V(t) is the number of bytes that a flow would have received by the time t if it had existed all the
// time. It is the virtual time of fair queueing (Demers, Keshav and Shenker, SIGCOMM 1989). A flow of S
// bytes that starts when V has the value V1 ends when V has the value V1 + S:
//
//     V(t) = V(t0) + r (t - t0)
//     first end = t + (least V + S of its flows - V(t)) / r, rounded up to ns
//
// A start, an end or a new rate therefore costs one heap operation, for any number of flows in the class. The
// first ends of all classes are the leaves of a tournament tree: each inner node has the earlier end of its
// two children. A new end updates the nodes from its leaf to the root.
//
// Rates are computed only when the next end is needed, so several starts at one instant need one computation.
// If the rate of a class does not change, its end is not computed again. Transfers that share no link are
// therefore exact to the nanosecond. Tests: tests/sim/contention_test.cpp.

#include "sim/network/flow_network.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
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
  // The rates are not updated between two starts at the same instant.
  if (now != now_ns_) update_rates();
  now_ns_ = now;
  FlowClass& flow_class = classes_[index(number)];
  if (flow_class.flows.empty()) {
    // An empty class counts from 0 again. So a flow that never shares a link takes exactly the time of a
    // transfer on links that are not shared.
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
  // The tree finds the class of flows that ends first. It may contain ends that are too early. Such an end is
  // corrected only when it is at the root, and then another class may end first.
  while (classes_[index(ends_[1].flow_class)].ends_later) enter_end(ends_[1].flow_class);
  if (ends_[1].time_ns == kNever) return std::nullopt;
  return ends_[1].time_ns;
}

std::int32_t FlowNetwork::finish() {
  // The caller has called next_end(), which corrects the end at the root.
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

/// Updates the rates and ends of all classes of flows in which a flow has started or finished.
void FlowNetwork::update_rates() {
  for (const std::int32_t number : share_.solve()) set_rate(number, share_.rate(number));
}

void FlowNetwork::set_rate(std::int32_t number, double bytes_per_second) {
  FlowClass& flow_class = classes_[index(number)];
  const std::int64_t ends_first = flow_class.flows.empty() ? -1 : flow_class.flows.front().number;
  // If neither the rate nor the first flow has changed, the end is not computed again, because this would
  // round it again.
  if (flow_class.bytes_per_second == bytes_per_second && flow_class.ends_first == ends_first) return;
  advance(flow_class);
  // If the rate decreases, the first flow ends later than the tree says. next_end() corrects this end when it
  // reaches the root.
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
  if (now_ns_ == flow_class.since_ns) return;  // otherwise 0 x infinity could occur, which is not a number
  const double elapsed_seconds = static_cast<double>(now_ns_ - flow_class.since_ns) * 1e-9;
  flow_class.carried_bytes += elapsed_seconds * flow_class.bytes_per_second;
  flow_class.since_ns = now_ns_;
}

/// Returns the time at which the class's first flow ends, or kNever if there is no flow. Requires that the
/// class has been advanced to now_ns_.
Ns FlowNetwork::first_end(const FlowClass& flow_class) const {
  if (flow_class.flows.empty()) return kNever;
  const double left_bytes = flow_class.flows.front().end_bytes - flow_class.carried_bytes;
  // The flow has had the same rate since its start, so the integer formula for links that are not shared
  // applies.
  if (flow_class.carried_bytes == 0)
    return now_ns_ + serialization_ns(static_cast<Bytes>(left_bytes), flow_class.bytes_per_second);
  const double left_ns = std::max(0.0, left_bytes) / flow_class.bytes_per_second * 1e9;
  // The subtraction is needed because a rounding error of the floating-point numbers could otherwise add a
  // whole nanosecond.
  return now_ns_ + rounded_up(left_ns - 1e-6);
}

void FlowNetwork::enter(End end) {
  // The leaves are the upper half of the array. Node n has the children 2n and 2n + 1. Node 1 is the root and
  // has the first end.
  std::size_t node = ends_.size() / 2 + index(end.flow_class);
  ends_[node] = end;
  while (node > 1) {
    node /= 2;
    const bool right = ends_[2 * node + 1].time_ns < ends_[2 * node].time_ns;
    ends_[node] = ends_[2 * node + (right ? 1 : 0)];
  }
}

/// Doubles the number of leaves of the tree that finds the earliest end, if it has fewer leaves than there
/// are classes of flows.
void FlowNetwork::add_leaves() {
  if (classes_.size() <= ends_.size() / 2) return;
  // All ends are entered again, because their leaves have other positions now.
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
  // Links of unlimited bandwidth slow no flow, so routes that differ only in such links have the same class.
  const std::vector<std::int32_t> limited = limited_links(route);
  const auto [entry, is_new] = class_of_links_.try_emplace(limited, 0);
  if (is_new) {
    entry->second = share_.add_class(limited);
    classes_.emplace_back();
    add_leaves();
  }
  return entry->second;
}

/// Returns the links of the route that have limited bandwidth, by their numbers in share_.
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

// Computes max-min fair rates. After a change, only the levels of links that the change may affect are
// computed again.
//
// Each link l has a level L(l). A flow over l has the rate L(l), or less if another link of its route has a
// lower level. Class c has n(c) flows, which cross the links R(c). C(l) is the capacity of link l:
//
//     rate(c) = min over l in R(c) of L(l)
//     sum over c crossing l of n(c) min(L(l), e(c, l)) = C(l)
//     e(c, l) = min over k in R(c), k != l, of L(k)
//
// L(l) is infinite if the sum is below C(l) for every value of L(l). If the levels solve all these equations,
// the rates are max-min fair: every flow crosses a full link on which no flow is faster. This is the
// criterion of Bertsekas and Gallager, Data Networks, section 6.5.2.
//
// When flows start or finish, a first round computes the levels of the links that they cross. Each further
// round computes the links on which e has changed. A level is never below C(l) / n(l), where n(l) is the
// number of flows on l. After one round no level is below the least of these values. After a second round the
// links with the least value are final. The same argument then holds for the remaining links, so two rounds
// for each link are enough. In practice, nearly all changes affect only a few links. Tests:
// tests/sim/contention_test.cpp.

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Returns true if two levels are equal or differ only by rounding. The tolerance is relative to the smaller
/// level. If it were relative to the larger one, an infinite level would equal every level.
bool is_same_level(double a, double b) {
  constexpr double kRounding = 1e-14;
  return a == b || std::abs(a - b) <= kRounding * std::min(a, b);
}

}  // namespace

std::int32_t MaxMinShare::add_link(double capacity) {
  links_.push_back({.capacity = capacity});
  levels_.push_back(kInfinite);
  return static_cast<std::int32_t>(links_.size()) - 1;
}

std::int32_t MaxMinShare::add_class(const std::vector<std::int32_t>& links) {
  const auto first_hop = static_cast<std::int32_t>(hops_.size());
  for (const std::int32_t link : links) hops_.push_back({.link = link});
  classes_.push_back({.first_hop = first_hop, .end_hop = static_cast<std::int32_t>(hops_.size())});
  return static_cast<std::int32_t>(classes_.size()) - 1;
}

std::span<MaxMinShare::Hop> MaxMinShare::hops_of(std::int32_t flow_class) {
  const FlowClass& of = classes_[index(flow_class)];
  return std::span(hops_).subspan(index(of.first_hop), index(of.end_hop - of.first_hop));
}

std::span<const MaxMinShare::Hop> MaxMinShare::hops_of(std::int32_t flow_class) const {
  const FlowClass& of = classes_[index(flow_class)];
  return std::span(hops_).subspan(index(of.first_hop), index(of.end_hop - of.first_hop));
}

void MaxMinShare::start(std::int32_t flow_class) {
  // The users of a link are only classes that have flows. A class therefore joins before its first flow is
  // counted, and leaves after its last flow.
  if (classes_[index(flow_class)].flows++ == 0) join(flow_class);
  change(flow_class, 1);
}

void MaxMinShare::finish(std::int32_t flow_class) {
  change(flow_class, -1);
  if (--classes_[index(flow_class)].flows == 0) leave(flow_class);
}

void MaxMinShare::change(std::int32_t flow_class, std::int32_t flows) {
  note(flow_class);
  for (const Hop& hop : hops_of(flow_class)) {
    SharedLink& link = links_[index(hop.link)];
    link.flows += flows;
    link.users[index(hop.place)].flows += flows;
    wait(hop.link);
  }
}

void MaxMinShare::join(std::int32_t flow_class) {
  for (Hop& hop : hops_of(flow_class)) {
    std::vector<User>& users = links_[index(hop.link)].users;
    hop.place = static_cast<std::int32_t>(users.size());
    // The class joins with 0 flows, because change() then adds the first flow.
    users.push_back({.limit = least_level(flow_class, hop.link), .flow_class = flow_class});
  }
}

void MaxMinShare::leave(std::int32_t flow_class) {
  for (const Hop& hop : hops_of(flow_class)) {
    std::vector<User>& users = links_[index(hop.link)].users;
    const User last = users.back();
    users[index(hop.place)] = last;
    // The last user moves to the free position, so the hop of this user must get the new position.
    std::ranges::find(hops_of(last.flow_class), hop.link, &Hop::link)->place = hop.place;
    users.pop_back();
  }
}

void MaxMinShare::note(std::int32_t flow_class) {
  if (!std::exchange(classes_[index(flow_class)].noted, true)) noted_.push_back(flow_class);
}

void MaxMinShare::wait(std::int32_t link) {
  if (!std::exchange(links_[index(link)].waits, true)) waiting_.push_back(link);
}

std::span<const std::int32_t> MaxMinShare::solve() {
  // After this number of rounds, only rounding errors could still change a level.
  for (std::size_t rounds = 2 * links_.size(); !waiting_.empty() && rounds > 0; --rounds) {
    round_.swap(waiting_);
    // The links with the lowest level limit the flows of other links, so they are solved first.
    std::ranges::sort(round_, {}, [&](std::int32_t link) { return levels_[index(link)]; });
    for (const std::int32_t link : round_) relax(link);
    round_.clear();
  }
  for (const std::int32_t link : waiting_) links_[index(link)].waits = false;
  waiting_.clear();
  for (const std::int32_t flow_class : noted_) classes_[index(flow_class)].noted = false;
  changed_.swap(noted_);
  noted_.clear();
  return changed_;
}

void MaxMinShare::relax(std::int32_t link) {
  links_[index(link)].waits = false;
  const double after = fair_level(link);
  // If the level has not changed, no rate on the link changes, so no other link is affected.
  if (is_same_level(levels_[index(link)], after)) return;
  levels_[index(link)] = after;
  for (const User& user : links_[index(link)].users) {
    note(user.flow_class);
    const std::span<const Hop> hops = hops_of(user.flow_class);
    for (const Hop& hop : hops) {
      if (hop.link == link) continue;
      User& there = links_[index(hop.link)].users[index(hop.place)];
      const double before = there.limit;
      // On a route of two links, the limit on one link is the level of the other one.
      there.limit = hops.size() == 2 ? after : least_level(user.flow_class, hop.link);
      // If the other link's level is below both the old and the new limit, the rate of the class does not
      // change, and the other link is not affected.
      if (std::min(before, there.limit) < levels_[index(hop.link)]) wait(hop.link);
    }
  }
}

/// Returns the level L(l), which is the rate at which flows without another limit fill the link. It begins
/// with equal shares of the capacity. If other links limit some flows to less than this share, the
/// remaining flows share the rest equally. This is repeated until no further flow is limited.
double MaxMinShare::fair_level(std::int32_t link) const {
  const SharedLink& shared = links_[index(link)];
  if (shared.flows == 0) return kInfinite;
  double level = shared.capacity / shared.flows;
  for (std::int32_t before = shared.flows;;) {
    double free = shared.capacity;
    std::int32_t sharing = 0;
    for (const User& user : shared.users) {
      const bool shares = user.limit >= level;
      free -= shares ? 0 : user.flows * user.limit;
      sharing += shares ? user.flows : 0;
    }
    // Other links limit all flows, so this link is not full and limits no flow.
    if (sharing == 0) return kInfinite;
    // Each round excludes the flows that other links limit, which raises the level. If a round excludes no
    // further flow, the level is correct.
    if (sharing >= before) return level;
    before = sharing;
    level = free / sharing;
  }
}

double MaxMinShare::least_level(std::int32_t flow_class, std::int32_t but_of_link) const {
  double least = kInfinite;
  for (const Hop& hop : hops_of(flow_class)) {
    if (hop.link != but_of_link) least = std::min(least, levels_[index(hop.link)]);
  }
  return least;
}

double MaxMinShare::rate(std::int32_t flow_class) const { return least_level(flow_class, -1); }

}  // namespace penstock
