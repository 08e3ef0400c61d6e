#pragma once
// Flows of bytes over the links of a cluster, sharing bandwidth; the event engine advances it from event to
// event. Private to sim/.

#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// The flows in progress. Time never goes back.
class FlowNetwork {
 public:
  explicit FlowNetwork(const Cluster& cluster);

  /// Starts a flow of `bytes` over the route between two devices and returns its number. A flow that is
  /// alone on all its links for all its life takes exactly serialization_ns(bytes, route).
  std::int32_t start(Ns now, std::int32_t from_device, std::int32_t to_device, Bytes bytes);
  /// Ends a flow that is due.
  void finish(Ns now, std::int32_t flow);

  /// The flow that ends next and when; the lowest number on a tie. Empty when none is in progress.
  struct NextEnd {
    Ns time_ns = 0;
    std::int32_t flow = 0;
  };
  std::optional<NextEnd> next_end() const;

 private:
  struct Flow {
    std::int32_t number = 0;
    std::vector<std::int32_t> links;  // those of limited bandwidth
    double remaining_bytes = 0;
    double bytes_per_second = 0;  // now
    Ns since_ns = 0;              // remaining_bytes is of this time
    Ns end_ns = 0;                // at the present rate
  };

  std::vector<std::int32_t> limited_links(const Route& route) const;
  bool any_shared(const std::vector<std::int32_t>& links) const;
  void share_again(Ns now);

  const Cluster& cluster_;
  std::vector<double> capacities_;
  std::vector<std::int32_t> users_;  // by link: flows in progress
  std::vector<Flow> flows_;          // in progress, by ascending number
  std::int32_t next_number_ = 0;
};

}  // namespace penstock
