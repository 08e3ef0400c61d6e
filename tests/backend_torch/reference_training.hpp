#pragma once
// A reference for training: one thread, the model without stages, autograd, and simple gradient descent. It
// uses the program only to find the weight version of each microbatch on each stage, and the microbatches of
// each STEP.

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "backend/torch/layers.hpp"
#include "backend/torch/networks.hpp"
#include "schedules/ir/program.hpp"

namespace penstock::nn {

/// The loss of a microbatch as a function of the weights of all stages.
using LossOfWeights = std::function<at::Tensor(const std::vector<Tensors>& stages, std::int32_t microbatch)>;

struct ReferenceTask {
  std::vector<Tensors> weights;  ///< the weights of version 0, by stage
  LossOfWeights loss;
  double loss_scale = 1;
  double learning_rate = 0.1;
};

/// The STEP on `rank` that makes `version` of `stage`.
using StepKey = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  // rank, stage, version

struct TrainingRecord {
  std::map<StepKey, Tensors> gradients;
  std::map<std::int32_t, double> losses;  ///< the loss of each microbatch
};

/// Trains the model without stages. Requires that the backward pass of each microbatch uses the weight
/// versions of its forward pass. Otherwise the gradients of this microbatch are not correct.
TrainingRecord train_unsplit(const Program& program, const ReferenceTask& task);

// The transformer of backend/torch/networks.hpp as a single expression for autograd, and its data.

/// Returns the loss of one microbatch. `weights` has the weights of all stages in order. There is no dropout.
at::Tensor unsplit_loss(const TransformerShape& shape, const Tensors& weights, std::int32_t microbatch);

/// tokens_of() returns random token numbers [2, positions]. targets_of() returns the token that must follow
/// each of them.
at::Tensor tokens_of(const TransformerShape& shape, std::int32_t microbatch);
at::Tensor targets_of(const TransformerShape& shape, std::int32_t microbatch);

}  // namespace penstock::nn
