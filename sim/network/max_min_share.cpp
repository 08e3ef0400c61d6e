// Computes max-min fair rates. After a change, only the links that the change can reach are solved again.
//
// Each link l has a level L(l). A flow over l has the rate L(l), or less if another of its links allows less.
// There are n(c) flows of class c, which crosses the links R(c). C(l) is the capacity of a link:
//
//     rate(c) = min over l in R(c) of L(l)
//     sum over c crossing l of n(c) min(L(l), e(c, l)) = C(l)
//     e(c, l) = min over k in R(c), k != l, of L(k)
//
// L(l) is infinite if the sum stays below C(l) for every L(l). Levels that solve all these equations are
// max-min fair: every flow crosses a link that is full and on which no flow is faster. This is the test of
// Bertsekas and Gallager, Data Networks, section 6.5.2.
//
// When flows start or finish, the links that they cross are solved again, in rounds. The next round takes the
// links on which e has changed, and so on. A level is never below C(l) / n(l). After one round no level is
// below the least of these values, and after a second round the links with that value are final. The same
// argument then holds for the remaining links and flows, so two rounds for each link are enough. Nearly
// always a few links are solved. Tests: tests/sim/max_min_share_test.cpp.

#include "sim/network/max_min_share.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Returns whether two levels differ only by rounding. The tolerance is relative to the smaller level,
/// because relative to an infinite level any two would be equal.
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
  // A link lists only classes that have flows. A class therefore joins before its first flow is counted and
  // leaves after its last.
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
    // The class joins with 0 flows. change() then counts its first flow like all later ones.
    users.push_back({.limit = least_level(flow_class, hop.link), .flow_class = flow_class});
  }
}

void MaxMinShare::leave(std::int32_t flow_class) {
  for (const Hop& hop : hops_of(flow_class)) {
    std::vector<User>& users = links_[index(hop.link)].users;
    const User last = users.back();
    users[index(hop.place)] = last;
    // The last user moves to the free position, so the hop of its class must point to that position.
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
  // After this number of rounds only rounding could still change a level.
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
  // The rates of all flows on the link stay the same, so no other link has to be solved again.
  if (is_same_level(levels_[index(link)], after)) return;
  levels_[index(link)] = after;
  for (const User& user : links_[index(link)].users) {
    note(user.flow_class);
    const std::span<const Hop> hops = hops_of(user.flow_class);
    for (const Hop& hop : hops) {
      if (hop.link == link) continue;
      User& there = links_[index(hop.link)].users[index(hop.place)];
      const double before = there.limit;
      // If a flow crosses two links, each is limited only by the other.
      there.limit = hops.size() == 2 ? after : least_level(user.flow_class, hop.link);
      // If the present level of the link is lower than both limits, the class gets that level before and
      // after.
      if (std::min(before, there.limit) < levels_[index(hop.link)]) wait(hop.link);
    }
  }
}

/// Returns the level L(l) that fills the link. It starts from an even share of the capacity. Flows that get
/// less on another link leave the rest of their share to the others, until no more flows get less.
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
    // All flows get less on other links. The link is not full and limits no flow.
    if (sharing == 0) return kInfinite;
    // Each round removes the flows that get less on another link, which raises the level. If a round removes
    // none, the level is correct.
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
