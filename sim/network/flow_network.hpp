#pragma once
// Divides the bandwidth of the cluster's links among the flows in progress, for the event engine.
// MaxMinShare computes the rates of flows, and FlowNetwork finds when each flow ends. message_costs.hpp
// computes the times of messages on links that are not shared. Used only inside sim/.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "schedules/ir/action.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// Computes the rates of flows over shared links. Flows that cross the same links have the same rate and form
/// one class.
///
/// The rates are max-min fair. On each link, they add up to at most the capacity. No flow can become faster
/// without making a flow slower that is not faster than itself. Exactly one set of rates has these properties
/// (Bertsekas and Gallager, "Data Networks", section 6.5.2).
class MaxMinShare {
 public:
  /// Adds a link and returns its number: 0, 1, 2 and so on. `capacity` is in bytes per second, greater than
  /// 0, and may be infinite.
  std::int32_t add_link(double capacity);
  /// Adds a class without flows and returns its number: 0, 1, 2 and so on. `links` are the links that its
  /// flows cross, each at most once. If `links` is empty, the rate of the flows is infinite.
  std::int32_t add_class(const std::vector<std::int32_t>& links);

  /// Add one flow to the class, or remove one. rate() returns the new rates only after solve().
  void start(std::int32_t flow_class);
  void finish(std::int32_t flow_class);

  /// Computes the rates of all classes. Returns the classes whose rate may have changed since the last
  /// call, and those in which flows have started or finished. Each class appears once. The span is valid
  /// until the next call of a non-const member function.
  std::span<const std::int32_t> solve();
  /// Returns the rate of each flow of the class, in bytes per second. Requires that solve() was called after
  /// the last change.
  double rate(std::int32_t flow_class) const;

 private:
  /// A link that a class crosses, and the position of the class in the link's list of users.
  struct Hop {
    std::int32_t link = 0;
    std::int32_t place = 0;
  };
  /// A class of flows. Its hops are the elements [first_hop, end_hop) of hops_.
  struct FlowClass {
    std::int32_t first_hop = 0;
    std::int32_t end_hop = 0;
    std::int32_t flows = 0;
    bool noted = false;  // true if the class is in noted_, so that it is not added twice
  };
  /// One entry in the list of a link's users: a class that crosses the link and has flows in progress.
  struct User {
    double limit = 0;  // rate that the other links of the class's route allow for each flow
    std::int32_t flows = 0;
    std::int32_t flow_class = 0;
  };
  struct SharedLink {
    double capacity = 0;
    std::vector<User> users{};
    std::int32_t flows = 0;  // number of flows of all users
    bool waits = false;      // true if the link is in waiting_, so that it is not added twice
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
  std::vector<double> levels_;  // level of each link, which is the rate of the flows that this link limits
  std::vector<Hop> hops_;
  std::vector<FlowClass> classes_;
  std::vector<std::int32_t> waiting_;  // links with a level that must be computed again
  std::vector<std::int32_t> round_;    // links whose levels the current round computes
  std::vector<std::int32_t> noted_;
  std::vector<std::int32_t> changed_;
};

/// A simulation of flows over shared links, which finds the end of each flow. The times in successive calls
/// must not decrease.
class FlowNetwork {
 public:
  explicit FlowNetwork(const Cluster& cluster);

  /// Returns the class of flows from one device to another. Two routes have the same class if they have the
  /// same links of limited bandwidth.
  std::int32_t class_of(std::int32_t from_device, std::int32_t to_device);

  /// Starts a flow of `bytes` at the time `now`. When the flow ends, finish() returns `owner`. A flow that
  /// never shares a link takes exactly serialization_ns(bytes, route).
  void start(Ns now, std::int32_t flow_class, Bytes bytes, std::int32_t owner);

  /// Returns the time at which the next flow ends, or nothing if no flow is in progress.
  std::optional<Ns> next_end();
  /// Ends the flow that next_end() has found, and returns its owner. If several flows of one class end at the
  /// same time, the one that started first ends first. No flow may start between next_end() and finish().
  std::int32_t finish();

 private:
  static constexpr Ns kNever = std::numeric_limits<Ns>::max();

  struct Flow {
    double end_bytes = 0;     // the flow ends when carried_bytes of its class reaches this
    std::int64_t number = 0;  // number of the flow in the order of the starts
    std::int32_t owner = 0;
    bool operator>(const Flow& other) const {
      return end_bytes != other.end_bytes ? end_bytes > other.end_bytes : number > other.number;
    }
  };
  /// The flows in progress of one class, which all have the same rate.
  struct FlowClass {
    double bytes_per_second = 0;  // current rate of each flow
    // The bytes that a flow has received if it has existed since the class was last empty.
    double carried_bytes = 0;
    Ns since_ns = 0;     // time at which carried_bytes was computed
    Ns end_ns = kNever;  // end of the flow that ends first; too early if `ends_later` is true
    bool ends_later = false;
    std::int64_t ends_first = -1;  // number of the flow that ends first, or -1
    std::vector<Flow> flows;       // heap with the flow that ends first on top
  };
  struct End {
    Ns time_ns = kNever;
    std::int32_t flow_class = 0;
  };

  std::int32_t class_of_route(const Route& route);
  std::vector<std::int32_t> limited_links(const Route& route);
  void update_rates();
  void set_rate(std::int32_t flow_class, double bytes_per_second);
  void advance(FlowClass& flow_class) const;
  Ns first_end(const FlowClass& flow_class) const;
  void enter_end(std::int32_t flow_class);
  void enter(End end);
  void add_leaves();

  const Cluster& cluster_;
  MaxMinShare share_;
  std::vector<FlowClass> classes_;
  std::unordered_map<std::int64_t, std::int32_t> class_of_pair_;
  std::map<std::vector<std::int32_t>, std::int32_t> class_of_links_;
  // Numbers in share_ of the links that flows use.
  std::unordered_map<LinkNumber, std::int32_t> number_of_link_;
  // The tree of the classes' ends. Its root is node 1, and node i has the earlier end of nodes 2i and 2i + 1.
  std::vector<End> ends_;
  Ns now_ns_ = 0;  // time of the last start or end
  std::int64_t started_ = 0;
};

}  // namespace penstock
