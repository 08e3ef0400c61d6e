// Computes every number from its definition, and caches it.

#include "tests/backend_torch/reference_training.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "tests/backend/program_facts.hpp"

namespace penstock::nn {

namespace {

class OnDemand {
 public:
  OnDemand(const Program& program, const ReferenceTask& task)
      : program_(program), task_(task), facts_(facts_of(program)) {}

  TrainingRecord run() {
    TrainingRecord record;
    for (const auto& [key, steps] : facts_.steps) {
      const auto [stage, rank] = key;
      for (std::size_t k = 0; k < steps.size(); ++k) {
        record.gradients[{rank, stage, static_cast<std::int32_t>(k) + 1}] = step_gradient(stage, rank, k);
      }
    }
    for (const auto& [microbatch, passed] : passes_) record.losses[microbatch] = passed.loss;
    return record;
  }

 private:
  struct Pass {
    double loss = 0;
    std::vector<Tensors> gradients;  // the gradients of each stage
  };

  const Tensors& weights(std::int32_t stage, std::int32_t rank, std::int32_t version) {
    if (version == 0) return task_.weights[index(stage)];
    const StepKey key{rank, stage, version};
    if (const auto known = weights_.find(key); known != weights_.end()) return known->second;
    Tensors next = weights(stage, rank, version - 1);
    const Tensors gradient = step_gradient(stage, rank, index(version - 1));
    for (std::size_t i = 0; i < gradient.size(); ++i) next[i] = next[i] - task_.learning_rate * gradient[i];
    return weights_[key] = std::move(next);
  }

  Tensors step_gradient(std::int32_t stage, std::int32_t rank, std::size_t k) {
    Tensors sum;
    const bool reduced = facts_.steps.at({stage, rank})[k].reduced;
    for (const std::int32_t member : program_.placement.stages[index(stage)].ranks) {
      if (member != rank && !reduced) continue;
      for (const std::int32_t microbatch : facts_.steps.at({stage, member})[k].microbatches) {
        const Tensors& gradient = pass(microbatch).gradients[index(stage)];
        if (sum.empty()) {
          sum = gradient;
        } else {
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = sum[i] + gradient[i];
        }
      }
    }
    return sum;
  }

  const Pass& pass(std::int32_t microbatch) {
    if (const auto known = passes_.find(microbatch); known != passes_.end()) return known->second;
    std::vector<Tensors> stages;
    Tensors leaves;
    for (std::int32_t stage = 0; stage < program_.stage_count(); ++stage) {
      Tensors& own = stages.emplace_back();
      for (const at::Tensor& weight : weights(stage, facts_.rank.at({stage, microbatch}),
                                              facts_.forward_version.at({stage, microbatch}))) {
        own.push_back(weight.detach().clone().requires_grad_(true));
        leaves.push_back(own.back());
      }
    }
    const at::Tensor loss = task_.loss(stages, microbatch);
    Pass passed{.loss = loss.item().toDouble(), .gradients = {}};
    const Tensors all = torch::autograd::grad({loss * task_.loss_scale}, leaves);
    std::size_t next = 0;
    for (const Tensors& own : stages) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(next);
      passed.gradients.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(own.size()));
      next += own.size();
    }
    return passes_[microbatch] = std::move(passed);
  }

  const Program& program_;
  const ReferenceTask& task_;
  ProgramFacts facts_;
  std::map<StepKey, Tensors> weights_;
  std::map<std::int32_t, Pass> passes_;
};

}  // namespace

TrainingRecord train_unsplit(const Program& program, const ReferenceTask& task) {
  return OnDemand(program, task).run();
}

namespace {

/// Returns weights one after another in the order of the model.
class WeightReader {
 public:
  explicit WeightReader(const Tensors& weights) : weights_(weights) {}
  const at::Tensor& next() { return weights_.at(next_++); }
  bool at_end() const { return next_ == weights_.size(); }

 private:
  const Tensors& weights_;
  std::size_t next_ = 0;
};

at::Tensor affine(const at::Tensor& x, WeightReader& weights) {
  const at::Tensor& matrix = weights.next();
  return at::matmul(x, matrix.t()) + weights.next();
}

at::Tensor normalized(const at::Tensor& x, WeightReader& weights) {
  const at::Tensor& scale = weights.next();
  return at::layer_norm(x, {x.size(-1)}, scale, weights.next());
}

at::Tensor attention(const at::Tensor& x, std::int64_t heads) {
  const at::Tensor parts = x.view({x.size(0), x.size(1), 3, heads, -1}).permute({2, 0, 3, 1, 4});
  return at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, /*is_causal=*/true)
      .transpose(1, 2)
      .reshape({x.size(0), x.size(1), -1});
}

at::Tensor drawn(const TransformerShape& shape, std::uint64_t seed) {
  return at::randint(0, shape.tokens, {2, shape.positions}, at::make_generator<at::CPUGeneratorImpl>(seed),
                     at::kLong);
}

}  // namespace

at::Tensor unsplit_loss(const TransformerShape& shape, const Tensors& weights, std::int32_t microbatch) {
  WeightReader next(weights);
  const at::Tensor tokens = tokens_of(shape, microbatch);
  const at::Tensor of_tokens = next.next().index_select(0, tokens.flatten()).view({2, shape.positions, -1});
  at::Tensor x = of_tokens + next.next();
  for (std::int64_t block = 0; block < shape.blocks; ++block) {
    const at::Tensor looked = attention(affine(normalized(x, next), next), shape.heads);
    x = x + affine(looked, next);
    const at::Tensor hidden = at::gelu(affine(normalized(x, next), next));
    x = x + affine(hidden, next);
  }
  const at::Tensor scores = affine(normalized(x, next), next);
  TORCH_CHECK(next.at_end(), "weights are left over");
  return at::cross_entropy_loss(scores.flatten(0, 1), targets_of(shape, microbatch).flatten());
}

at::Tensor tokens_of(const TransformerShape& shape, std::int32_t microbatch) {
  return drawn(shape, 2 * static_cast<std::uint64_t>(microbatch));
}

at::Tensor targets_of(const TransformerShape& shape, std::int32_t microbatch) {
  return drawn(shape, 2 * static_cast<std::uint64_t>(microbatch) + 1);
}

}  // namespace penstock::nn
