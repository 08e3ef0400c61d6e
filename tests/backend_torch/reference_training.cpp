// Every number by its definition, remembered.

#include "tests/backend_torch/reference_training.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
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
    std::vector<Tensors> gradients;  // by stage
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

}  // namespace penstock::nn
