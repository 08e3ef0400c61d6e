// Distributes minibatches over the replicas of stages. With Routing::runtime, a replica q' of a stage with r'
// replicas receives from r replicas of the previous stage as follows. Row R_i holds the upstream replicas i,
// i+r', i+2r', ... below r. The replica starts at row q', or at the last row if there are fewer rows. It
// takes one minibatch from each replica of the row, from left to right. Then it continues with the previous
// row; before the first row comes the last one.
//
//   r = 5, r' = 2:   R_0 = 0 2 4    R_1 = 1 3        q' = 0 takes from 0 2 4 1 3 0 2 4 ...
//                                                    q' = 1 takes from 1 3 0 2 4 1 3 ...
//
// Tested by one_f_one_b_rr_test.cpp.

#include "schedules/rules/replica_routing.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "schedules/ir/index.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {
namespace {

/// Returns the minibatches of each replica in turn. This is the rule for the first stage, and for every stage
/// under Routing::global.
ReplicaMinibatches round_robin(std::int32_t replicas, std::int32_t minibatches) {
  ReplicaMinibatches stage(index(replicas));
  for (std::int32_t g = 0; g < minibatches; ++g) stage[index(g % replicas)].push_back(g);
  return stage;
}

/// Returns the rows R_i (see the top of this file).
std::vector<std::vector<std::size_t>> receive_rows(std::size_t upstream, std::size_t replicas) {
  std::vector<std::vector<std::size_t>> rows;
  for (std::size_t first = 0; first < std::min(upstream, replicas); ++first) {
    auto& row = rows.emplace_back();
    for (std::size_t replica = first; replica < upstream; replica += replicas) row.push_back(replica);
  }
  return rows;
}

/// Returns the minibatches that replica `self` runs. `queues` has one queue of minibatches from each upstream
/// replica.
tl::expected<std::vector<std::int32_t>, std::string> receive(
    std::vector<std::deque<std::int32_t>> queues, const std::vector<std::vector<std::size_t>>& rows,
    std::size_t self) {
  std::size_t left = 0;
  for (const auto& queue : queues) left += queue.size();
  std::vector<std::int32_t> received;
  std::size_t row = std::min(self, rows.size() - 1);
  while (left > 0) {
    for (const std::size_t upstream : rows[row]) {
      if (left == 0) break;
      if (queues[upstream].empty()) {
        return tl::unexpected(fmt::format(
            "replica {} waits for replica {} of the stage before it, which has no more", self, upstream));
      }
      received.push_back(queues[upstream].front());
      queues[upstream].pop_front();
      --left;
    }
    row = (row + rows.size() - 1) % rows.size();
  }
  return received;
}

/// Returns the minibatches of the next stage. Upstream replica q sends its j-th minibatch to replica (j + q)
/// mod r'. This replica receives along its rows.
tl::expected<ReplicaMinibatches, std::string> next_stage(const ReplicaMinibatches& from,
                                                         std::int32_t replicas) {
  std::vector<std::vector<std::deque<std::int32_t>>> queues(
      index(replicas), std::vector<std::deque<std::int32_t>>(from.size()));
  for (std::size_t q = 0; q < from.size(); ++q) {
    for (std::size_t j = 0; j < from[q].size(); ++j) {
      queues[(j + q) % index(replicas)][q].push_back(from[q][j]);
    }
  }
  const auto rows = receive_rows(from.size(), index(replicas));
  ReplicaMinibatches stage;
  for (std::size_t self = 0; self < index(replicas); ++self) {
    auto received = receive(std::move(queues[self]), rows, self);
    if (!received) return tl::unexpected(received.error());
    stage.push_back(std::move(*received));
  }
  return stage;
}

}  // namespace

tl::expected<std::vector<ReplicaMinibatches>, std::string> route_minibatches(
    std::span<const std::int32_t> replicas, std::int32_t minibatches, Routing routing) {
  std::vector<ReplicaMinibatches> stages{round_robin(replicas.front(), minibatches)};
  for (std::size_t stage = 1; stage < replicas.size(); ++stage) {
    if (routing == Routing::global) {
      stages.push_back(round_robin(replicas[stage], minibatches));
      continue;
    }
    auto next = next_stage(stages.back(), replicas[stage]);
    if (!next) return tl::unexpected(fmt::format("at stage {} {}", stage, next.error()));
    stages.push_back(std::move(*next));
  }
  return stages;
}

std::vector<std::int32_t> route_table(const ReplicaMinibatches& stage) {
  std::size_t count = 0;
  for (const auto& minibatches : stage) count += minibatches.size();
  std::vector<std::int32_t> route(count);
  for (std::size_t replica = 0; replica < stage.size(); ++replica) {
    for (const std::int32_t g : stage[replica]) route[index(g)] = static_cast<std::int32_t>(replica);
  }
  // Computes the failure function of Knuth, Morris and Pratt, which gives the shortest period.
  std::vector<std::size_t> border(count, 0);
  for (std::size_t i = 1, matched = 0; i < count; ++i) {
    while (matched > 0 && route[i] != route[matched]) matched = border[matched - 1];
    if (route[i] == route[matched]) ++matched;
    border[i] = matched;
  }
  route.resize(count - border.back());
  return route;
}

}  // namespace penstock
