#pragma once
// Max-min fair sharing of link bandwidth among flows. The rates are updated while flows start and finish.
// FlowNetwork uses it.

#include <cstdint>
#include <span>
#include <vector>

namespace penstock {

/// Rates of flows over shared links. Flows that cross the same links have the same rate and are counted as
/// one class.
///
/// The allocation is max-min fair. The rates over each link add up to at most its capacity. A flow's rate can
/// only be raised by lowering the rate of another flow that is not faster. Exactly one allocation has these
/// properties (Bertsekas and Gallager, "Data Networks", section 6.5.2).
class MaxMinShare {
 public:
  /// Adds a link and returns its number: 0, 1, 2 and so on. `capacity` is in bytes per second, greater than
  /// 0, and may be infinite.
  std::int32_t add_link(double capacity);
  /// Adds a class without flows and returns its number: 0, 1, 2 and so on. `links` are the links that its
  /// flows cross, each at most once. If no link limits them, their rate is infinite.
  std::int32_t add_class(const std::vector<std::int32_t>& links);

  /// Count one more or one fewer flow of the class. The rates are correct again after solve().
  void start(std::int32_t flow_class);
  void finish(std::int32_t flow_class);

  /// Computes the rates. Returns once each class that may have a new rate since the last call, or of which a
  /// flow has started or finished. The span is valid until the next call of a non-const member.
  std::span<const std::int32_t> solve();
  /// Returns the rate of each flow of the class, in bytes per second. Requires that solve() was called after
  /// the last change.
  double rate(std::int32_t flow_class) const;

 private:
  /// One link that a class crosses, and the position of the class in the link's list of users.
  struct Hop {
    std::int32_t link = 0;
    std::int32_t place = 0;
  };
  /// A class of flows. Its hops are the elements [first_hop, end_hop) of hops_.
  struct FlowClass {
    std::int32_t first_hop = 0;
    std::int32_t end_hop = 0;
    std::int32_t flows = 0;
    bool noted = false;  // true if the class is already in noted_
  };
  /// A class with flows in progress, as a user of one link.
  struct User {
    double limit = 0;  // rate that the other links of the class allow each of its flows
    std::int32_t flows = 0;
    std::int32_t flow_class = 0;
  };
  struct SharedLink {
    double capacity = 0;
    std::vector<User> users{};
    std::int32_t flows = 0;  // number of flows of all users
    bool waits = false;      // true if the link is in waiting_
  };

  void change(std::int32_t flow_class, std::int32_t flows);
  void join(std::int32_t flow_class);
  void leave(std::int32_t flow_class);
  void note(std::int32_t flow_class);
  void wait(std::int32_t link);
  void relax(std::int32_t link);
  double fair_level(std::int32_t link) const;
  double least_level(std::int32_t flow_class, std::int32_t but_of_link) const;
  std::span<Hop> hops_of(std::int32_t flow_class);
  std::span<const Hop> hops_of(std::int32_t flow_class) const;

  std::vector<SharedLink> links_;
  std::vector<double> levels_;  // level of each link: the rate of flows that only this link limits
  std::vector<Hop> hops_;
  std::vector<FlowClass> classes_;
  std::vector<std::int32_t> waiting_;  // links with a level that may no longer solve their equation
  std::vector<std::int32_t> round_;    // links that the present round looks at
  std::vector<std::int32_t> noted_;
  std::vector<std::int32_t> changed_;
};

}  // namespace penstock
