#pragma once
// Which minibatch goes to which replica of each stage, and in which order a replica takes them. Used by
// one_f_one_b_rr.cpp. Private to schedules/.

#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/shape.hpp"

namespace penstock {

/// For one stage: the minibatches of each replica, in the order in which the replica runs them.
using ReplicaMinibatches = std::vector<std::vector<std::int32_t>>;

/// Routes minibatches 0..M-1 through the stages; minibatch g enters at replica g mod r of stage 0.
///
/// Routing::global: stage s, replica q takes every g with g mod r_s = q, ascending.
/// Routing::runtime: PipeDream's released runtime (msr-fiddle/pipedream, runtime/communication.py): replica
/// q sends its j-th minibatch to replica (j + q) mod r of the next stage, which receives along rows of
/// upstream replicas. Errors: with `runtime`, a count that leaves a replica waiting for a minibatch that
/// never comes.
tl::expected<std::vector<ReplicaMinibatches>, std::string> route_minibatches(
    std::span<const std::int32_t> replicas, std::int32_t minibatches, Routing routing);

/// The shortest table that, repeated, names the replica of every minibatch.
std::vector<std::int32_t> route_table(const ReplicaMinibatches& stage);

}  // namespace penstock
