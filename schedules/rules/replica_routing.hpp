#pragma once
// Decides which replica of each stage runs each minibatch, and in which order. one_f_one_b_rr.cpp uses this
// file. Only schedules/ includes this header.

#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/shape.hpp"

namespace penstock {

/// The minibatches of each replica of a stage, in the order in which the replica runs them.
using ReplicaMinibatches = std::vector<std::vector<std::int32_t>>;

/// Distributes the minibatches 0..M-1 over the replicas of all stages. Minibatch g enters at replica g mod r
/// of stage 0, which has r replicas.
///
/// Routing::global: replica q of stage s runs every minibatch g with g mod r_s = q, in ascending order.
/// Routing::runtime: the rule of PipeDream's released runtime (msr-fiddle/pipedream,
/// runtime/communication.py). Replica q sends its j-th minibatch to replica (j + q) mod r of the next stage.
/// The receiver takes minibatches along rows of upstream replicas (replica_routing.cpp). Fails if a replica
/// would wait forever for a minibatch.
tl::expected<std::vector<ReplicaMinibatches>, std::string> route_minibatches(
    std::span<const std::int32_t> replicas, std::int32_t minibatches, Routing routing);

/// Returns the shortest table of replicas that gives the replica of each minibatch when it is repeated.
std::vector<std::int32_t> route_table(const ReplicaMinibatches& stage);

}  // namespace penstock
