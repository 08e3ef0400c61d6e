#pragma once
// Sums the bytes that ranks send over each link of a cluster.

#include <cstdint>
#include <map>
#include <vector>

#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"
#include "topology/cluster.hpp"

namespace penstock {

class LinkBytes {
 public:
  /// Keeps a reference to the cluster, which must outlive this object.
  explicit LinkBytes(const Cluster& cluster) : cluster_(cluster) {}

  /// Adds the bytes that one rank sends to another. Each call looks up the route, so callers should add up
  /// all messages of a pair first.
  void add(std::int32_t from_rank, std::int32_t to_rank, Bytes bytes) {
    for (const LinkNumber link : cluster_.route(from_rank, to_rank).links) bytes_of_link_[link] += bytes;
  }

  /// Returns the links that carried bytes, in the order of their numbers.
  std::vector<LinkTraffic> traffic() const {
    std::vector<LinkTraffic> traffic;
    for (const auto& [link, bytes] : bytes_of_link_) {
      if (bytes > 0) traffic.push_back({cluster_.link(link).name, bytes});
    }
    return traffic;
  }

 private:
  const Cluster& cluster_;
  std::map<LinkNumber, Bytes> bytes_of_link_;
};

}  // namespace penstock
