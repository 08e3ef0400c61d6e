#pragma once
// What training must come to: one thread, the unsplit model, autograd, plain gradient descent. From a program
// it takes only which weight version each microbatch uses on each stage, and which microbatches a STEP
// covers.

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "backend/torch/layers.hpp"
#include "backend/torch/models.hpp"
#include "schedules/ir/program.hpp"

namespace penstock::nn {

/// The loss of a microbatch as a function of the weights of all stages.
using LossOfWeights = std::function<at::Tensor(const std::vector<Tensors>& stages, std::int32_t microbatch)>;

struct ReferenceTask {
  std::vector<Tensors> weights;  ///< of version 0, by stage
  LossOfWeights loss;
  double loss_scale = 1;
  double learning_rate = 0.1;
};

/// The STEP on `rank` that makes `version` of `stage`.
using StepKey = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  // rank, stage, version

struct TrainingRecord {
  std::map<StepKey, Tensors> gradients;
  std::map<std::int32_t, double> losses;  ///< by microbatch
};

/// Requires that each microbatch's backward uses the versions of its forward, or that nobody compares the
/// gradients of one that does not.
TrainingRecord train_unsplit(const Program& program, const ReferenceTask& task);

// The transformer of backend/torch/models.hpp as one expression that autograd differentiates, and its data.

/// Of one microbatch, from the weights of all stages end to end. Without dropout.
at::Tensor unsplit_loss(const TransformerShape& shape, const Tensors& weights, std::int32_t microbatch);

/// Random token numbers [2, positions], and for each the one that shall follow.
at::Tensor tokens_of(const TransformerShape& shape, std::int32_t microbatch);
at::Tensor targets_of(const TransformerShape& shape, std::int32_t microbatch);

}  // namespace penstock::nn
