#pragma once
// The replica of each stage that runs each minibatch, and the order in which a replica runs them. Used by
// one_f_one_b_rr.cpp. Only schedules/ includes this header.

#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/shape.hpp"

namespace penstock {

/// The minibatches of each replica of one stage, in the order in which the replica runs them.
using ReplicaMinibatches = std::vector<std::vector<std::int32_t>>;

/// Returns the minibatches 0..M-1 of the replicas of all stages. Minibatch g enters at replica g mod r of
/// stage 0.
///
/// Routing::global: replica q of stage s runs every g with g mod r_s = q, ascending.
/// Routing::runtime: PipeDream's released runtime (msr-fiddle/pipedream, runtime/communication.py): replica q
/// sends its j-th minibatch to replica (j + q) mod r of the next stage, which receives along rows of upstream
/// replicas. Error: with `runtime`, a number of minibatches for which a replica would wait forever for one.
tl::expected<std::vector<ReplicaMinibatches>, std::string> route_minibatches(
    std::span<const std::int32_t> replicas, std::int32_t minibatches, Routing routing);

/// Returns the shortest table that, repeated, contains the replica of every minibatch.
std::vector<std::int32_t> route_table(const ReplicaMinibatches& stage);

}  // namespace penstock
