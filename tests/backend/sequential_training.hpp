#pragma once
// Trains the echo model by simple loops on one thread. Every schedule must compute the same numbers.

#include <cstdint>
#include <functional>
#include <vector>

#include "schedules/ir/program.hpp"
#include "tests/backend/echo_model.hpp"

namespace penstock::echo {

/// The gradient of each STEP, in order, by stage.
using Gradients = std::vector<std::vector<Weights>>;

/// Trains a chain of `stages` stages. It makes `minibatches` updates, one after the other, with
/// `microbatches` microbatches each.
Gradients train_by_minibatch(std::int32_t stages, std::int32_t microbatches, std::int32_t minibatches);

/// Trains a chain with an update after each microbatch. F and B use the weight versions that the functions
/// return for a stage and a microbatch. A version is at most the number of the microbatch.
using VersionRule = std::function<std::int32_t(std::int32_t stage, std::int32_t microbatch)>;
Gradients train_by_microbatch(std::int32_t stages, std::int32_t microbatches, const VersionRule& of_forward,
                              const VersionRule& of_backward);

/// Computes the gradients of any program. The stage graph, replicas, reductions, versions and the
/// microbatches of each STEP are read from the lists. All other numbers are computed from their definitions.
/// The result is indexed by rank, then as in Gradients.
std::vector<Gradients> gradients_of(const Program& program);

}  // namespace penstock::echo
