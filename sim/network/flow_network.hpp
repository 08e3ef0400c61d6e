#pragma once
// The network model of the event engine: flows of bytes that share the bandwidth of the cluster's links. The
// engine advances it from one event to the next. Used only inside sim/.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/network/max_min_share.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// The flows in progress. The times that callers pass must not decrease.
class FlowNetwork {
 public:
  explicit FlowNetwork(const Cluster& cluster);

  /// Returns the number of the class to which flows between these two devices belong. Routes with equal
  /// limited links have the same class.
  std::int32_t class_of(std::int32_t from_device, std::int32_t to_device);

  /// Starts a flow of `bytes` at the time `now`. finish() returns `owner` when the flow ends. A flow that
  /// shares no link during its whole life takes exactly serialization_ns(bytes, route).
  void start(Ns now, std::int32_t flow_class, Bytes bytes, std::int32_t owner);

  /// Returns the time at which the next flow ends, or nothing if no flow is in progress.
  std::optional<Ns> next_end();
  /// Ends the flow that next_end() has found, and returns its owner. If several flows of one class end at the
  /// same time, the one that started first ends first. Requires that no flow has started since next_end().
  std::int32_t finish();

 private:
  static constexpr Ns kNever = std::numeric_limits<Ns>::max();

  struct Flow {
    double end_bytes = 0;     // the flow ends when carried_bytes of its class reaches this
    std::int64_t number = 0;  // counts the flows in the order of their starts
    std::int32_t owner = 0;
    bool operator>(const Flow& other) const {
      return end_bytes != other.end_bytes ? end_bytes > other.end_bytes : number > other.number;
    }
  };
  /// The flows in progress that use equal routes. They all have the same rate.
  struct FlowClass {
    double bytes_per_second = 0;  // present rate of each flow
    // Bytes that a flow has received if it has existed since the class was last empty.
    double carried_bytes = 0;
    Ns since_ns = 0;     // time at which carried_bytes was computed
    Ns end_ns = kNever;  // end of the flow that ends first; too early if ends_later is set
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
  // Tree of the classes' ends with its root at 1; node i holds the earlier one of nodes 2i and 2i + 1.
  std::vector<End> ends_;
  Ns now_ns_ = 0;  // time of the last start or end
  std::int64_t started_ = 0;
};

}  // namespace penstock
