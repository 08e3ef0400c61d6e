#pragma once
// Flows of bytes over the links of a cluster, sharing bandwidth; the event engine advances it from event to
// event. Private to sim/.

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

/// The flows in progress. Time never goes back.
class FlowNetwork {
 public:
  explicit FlowNetwork(const Cluster& cluster);

  /// The class of the flows from one device to another: equal for equal routes.
  std::int32_t class_of(std::int32_t from_device, std::int32_t to_device);

  /// Starts a flow of `bytes`; `owner` is what finish() will say of it. A flow that is alone on all its links
  /// for all its life takes exactly serialization_ns(bytes, route).
  void start(Ns now, std::int32_t flow_class, Bytes bytes, std::int32_t owner);

  /// When the next flow ends; empty when none is in progress.
  std::optional<Ns> next_end();
  /// Ends that flow, and returns its owner. Of flows with equal routes that end at the same time, the one
  /// that started first is the first. Requires that nothing has started since next_end().
  std::int32_t finish();

 private:
  static constexpr Ns kNever = std::numeric_limits<Ns>::max();

  struct Flow {
    double end_bytes = 0;     // it ends when its class has carried so many
    std::int64_t number = 0;  // in the order of starts
    std::int32_t owner = 0;
    bool operator>(const Flow& other) const {
      return end_bytes != other.end_bytes ? end_bytes > other.end_bytes : number > other.number;
    }
  };
  /// Flows of equal routes.
  struct FlowClass {
    double bytes_per_second = 0;  // of each flow, now
    double carried_bytes = 0;     // what a flow got that has been there since the class was last empty
    Ns since_ns = 0;              // carried_bytes is of this time
    Ns end_ns = kNever;           // of the flow that ends first, at the present rate unless it ends later
    bool ends_later = false;
    std::int64_t ends_first = -1;  // the number of that flow
    std::vector<Flow> flows;       // a heap, the first to end on top
  };
  struct End {
    Ns time_ns = kNever;
    std::int32_t flow_class = 0;
  };

  std::int32_t class_of_route(const Route& route);
  std::vector<std::int32_t> limited_links(const Route& route);
  void settle();
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
  std::unordered_map<LinkNumber, std::int32_t> number_of_link_;  // those that flows use, as share_ has it
  std::vector<End> ends_;  // a tree of the classes' ends, the root at 1: each the earlier of 2i and 2i + 1
  Ns now_ns_ = 0;          // of the last start or end
  std::int64_t started_ = 0;
};

}  // namespace penstock
