// Each link l has a level L(l): its flows get that much of it, or less where another of their links gives
// less, and it is full. With n(c) flows of class c, c crossing the links R(c), and the capacity C(l):
//
//     rate(c) = min over l in R(c) of L(l)
//     sum over c crossing l of n(c) min(L(l), e(c, l)) = C(l)
//     e(c, l) = min over k in R(c), k != l, of L(k)
//
// and L(l) is infinite where the sum stays below C(l) whatever L(l) is. Levels that solve all these equations
// are max-min fair: every flow crosses a link that is full and on which no flow is faster, which is the test
// of Bertsekas and Gallager, Data Networks, section 6.5.2.
//
// When flows come or go, only the links whose equation may have stopped to hold are solved anew, in rounds:
// those that the flows cross, then those whose e has changed, and so on. A link's level is never below C(l) /
// n(l), so that after one round none is below the least of these, and after the next the links that have it
// are right and stay so. The same holds for what is left without their flows, so that two rounds a link are
// enough; nearly always a few links are.

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

/// Equal but for rounding. The smaller one is the measure: measured by an infinite level, any two would be
/// equal.
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
  // Links know only of classes with flows: the first one joins before it is counted, the last one leaves
  // behind.
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
    // Without flows: change() counts them, the first one as all others.
    users.push_back({.limit = least_level(flow_class, hop.link), .flow_class = flow_class});
  }
}

void MaxMinShare::leave(std::int32_t flow_class) {
  for (const Hop& hop : hops_of(flow_class)) {
    std::vector<User>& users = links_[index(hop.link)].users;
    const User last = users.back();
    users[index(hop.place)] = last;
    // The last user takes the free place, and its class is told where it stands now.
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

std::span<const std::int32_t> MaxMinShare::settle() {
  // Beyond this number of rounds rounding alone could move a level.
  for (std::size_t rounds = 2 * links_.size(); !waiting_.empty() && rounds > 0; --rounds) {
    round_.swap(waiting_);
    // What is full first limits others.
    std::ranges::sort(round_, {}, [&](std::int32_t link) { return levels_[index(link)]; });
    for (const std::int32_t link : round_) relax(link);
    round_.clear();
  }
  for (const std::int32_t link : waiting_) links_[index(link)].waits = false;
  waiting_.clear();
  for (const std::int32_t flow_class : noted_) classes_[index(flow_class)].noted = false;
  settled_.swap(noted_);
  noted_.clear();
  return settled_;
}

void MaxMinShare::relax(std::int32_t link) {
  links_[index(link)].waits = false;
  const double after = fair_level(link);
  // Nobody who uses the link sees a difference, so the change goes no further.
  if (is_same_level(levels_[index(link)], after)) return;
  levels_[index(link)] = after;
  for (const User& user : links_[index(link)].users) {
    note(user.flow_class);
    const std::span<const Hop> hops = hops_of(user.flow_class);
    for (const Hop& hop : hops) {
      if (hop.link == link) continue;
      User& there = links_[index(hop.link)].users[index(hop.place)];
      const double before = there.limit;
      // With two links each limits the other alone.
      there.limit = hops.size() == 2 ? after : least_level(user.flow_class, hop.link);
      // Whoever gets no more than that from the link as it is takes the same from it as before.
      if (std::min(before, there.limit) < levels_[index(hop.link)]) wait(hop.link);
    }
  }
}

/// The L(l) that fills the link: an even share of the capacity for all, then of what those leave who get less
/// elsewhere, until no more do.
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
    // All get less elsewhere, and the link is not full: it limits nobody.
    if (sharing == 0) return kInfinite;
    // Each round takes out those who get less elsewhere, which raises the level; once nobody is taken out
    // it is right.
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
