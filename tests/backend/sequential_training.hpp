#pragma once
// The echo model trained by plain loops on one thread: what every schedule must come to.

#include <cstdint>
#include <functional>
#include <vector>

#include "schedules/ir/program.hpp"
#include "tests/backend/echo_model.hpp"

namespace penstock::echo {

/// By stage: the gradient of each STEP, in order.
using Gradients = std::vector<std::vector<Weights>>;

/// A chain of `stages`; `minibatches` updates of `microbatches` each, one after the other.
Gradients train_by_minibatch(std::int32_t stages, std::int32_t microbatches, std::int32_t minibatches);

/// A chain with an update after each microbatch, whose F and B use the versions that the functions name
/// (of stage and microbatch; at most the microbatch's own number).
using VersionRule = std::function<std::int32_t(std::int32_t stage, std::int32_t microbatch)>;
Gradients train_by_microbatch(std::int32_t stages, std::int32_t microbatches, const VersionRule& of_forward,
                              const VersionRule& of_backward);

/// Any program: stage graph, replicas, reductions, versions and what each STEP covers are read from the
/// lists, everything else is computed on demand from the definitions. Indexed by rank, then as Gradients.
std::vector<Gradients> gradients_of(const Program& program);

}  // namespace penstock::echo
