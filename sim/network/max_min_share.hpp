#pragma once
// Max-min fair sharing of link bandwidth among flows, kept up to date while flows come and go: the network
// model of the event engine.

#include <cstdint>
#include <span>
#include <vector>

namespace penstock {

/// Rates of flows over shared links. Flows that cross the same links have the same rate, and are counted as
/// one class.
///
/// The allocation is max-min fair: the sum of the rates over each link <= its capacity, and no flow's rate
/// can be raised without lowering that of a flow that has no more. There is exactly one (Bertsekas and
/// Gallager, "Data Networks", section 6.5.2).
class MaxMinShare {
 public:
  /// A new link and its number: 0, 1, ... `capacity`: bytes per second, > 0, may be infinite.
  std::int32_t add_link(double capacity);
  /// A new class, of which no flow is under way, and its number: 0, 1, ... `links`: what its flows cross,
  /// each at most once. Without a limiting link their rate is infinite.
  std::int32_t add_class(const std::vector<std::int32_t>& links);

  /// One flow of the class more or fewer. Rates are right again after settle().
  void start(std::int32_t flow_class);
  void finish(std::int32_t flow_class);

  /// Finds the rates. Returns each class once whose rate may have changed since the last call, or of which a
  /// flow has started or finished. Good until the next call of a member that is not const.
  std::span<const std::int32_t> settle();
  /// Bytes per second of each of the class's flows, if it has any. Requires settled rates.
  double rate(std::int32_t flow_class) const;

 private:
  /// A link of a class, and the class's place among the link's users.
  struct Hop {
    std::int32_t link = 0;
    std::int32_t place = 0;
  };
  /// Its hops are [first_hop, end_hop) of hops_.
  struct FlowClass {
    std::int32_t first_hop = 0;
    std::int32_t end_hop = 0;
    std::int32_t flows = 0;
    bool noted = false;  // is in noted_
  };
  /// A class that has flows, among the users of a link.
  struct User {
    double limit = 0;  // what each of them gets from its other links
    std::int32_t flows = 0;
    std::int32_t flow_class = 0;
  };
  struct SharedLink {
    double capacity = 0;
    std::vector<User> users{};
    std::int32_t flows = 0;  // of all users
    bool waits = false;      // is in waiting_
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
  std::vector<double> levels_;  // by link
  std::vector<Hop> hops_;
  std::vector<FlowClass> classes_;
  std::vector<std::int32_t> waiting_;  // links whose level may not solve their equation
  std::vector<std::int32_t> round_;    // those of them that are looked at now
  std::vector<std::int32_t> noted_;
  std::vector<std::int32_t> settled_;
};

}  // namespace penstock
