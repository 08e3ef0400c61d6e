// Three references, from the simplest to the most general. The first trains a chain minibatch by minibatch.
// The second trains a chain in which F and B use older versions (PipeDream, SOSP'19, section 3.3). The third
// is for any program. It computes every number by its definition when the number is first needed:
//
//   gradient of a STEP   <-  inputs and output gradients of its microbatches
//                        <-  weights of the versions that these use
//                        <-  gradients of the STEPs before, and so on down to the first weights

#include "tests/backend/sequential_training.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "tests/backend/echo_model.hpp"
#include "tests/backend/program_facts.hpp"

namespace penstock::echo {
namespace {

/// The weights that F and B of a microbatch use on each stage of a chain.
using ChainWeights = std::vector<Weights>;

/// Returns the gradients of one microbatch through a chain.
std::vector<Weights> one_microbatch(std::int32_t microbatch, const ChainWeights& forward,
                                    const ChainWeights& backward) {
  std::vector<Number> inputs;
  Number y = input(microbatch);
  for (const Weights& weights : forward) {
    inputs.push_back(y);
    y = weights.a * y + weights.b;
  }
  std::vector<Weights> gradients(forward.size());
  Number g = y - target(microbatch);
  for (std::size_t stage = forward.size(); stage-- > 0;) {
    gradients[stage] = {g * inputs[stage], g};
    g *= backward[stage].a;
  }
  return gradients;
}

ChainWeights untrained(std::int32_t stages) {
  ChainWeights weights;
  for (std::int32_t stage = 0; stage < stages; ++stage) weights.push_back(first_weights(stage));
  return weights;
}

}  // namespace

Gradients train_by_minibatch(std::int32_t stages, std::int32_t microbatches, std::int32_t minibatches) {
  ChainWeights weights = untrained(stages);
  Gradients all(index(stages));
  for (std::int32_t minibatch = 0; minibatch < minibatches; ++minibatch) {
    std::vector<Weights> sum(index(stages));
    for (std::int32_t m = minibatch * microbatches; m < (minibatch + 1) * microbatches; ++m) {
      const auto gradients = one_microbatch(m, weights, weights);
      for (std::size_t stage = 0; stage < sum.size(); ++stage) sum[stage] += gradients[stage];
    }
    for (std::size_t stage = 0; stage < sum.size(); ++stage) {
      weights[stage] -= sum[stage];
      all[stage].push_back(sum[stage]);
    }
  }
  return all;
}

Gradients train_by_microbatch(std::int32_t stages, std::int32_t microbatches, const VersionRule& of_forward,
                              const VersionRule& of_backward) {
  std::vector<ChainWeights> versions = {untrained(stages)};
  Gradients all(index(stages));
  for (std::int32_t m = 0; m < microbatches; ++m) {
    ChainWeights forward;
    ChainWeights backward;
    for (std::int32_t stage = 0; stage < stages; ++stage) {
      forward.push_back(versions[index(of_forward(stage, m))][index(stage)]);
      backward.push_back(versions[index(of_backward(stage, m))][index(stage)]);
    }
    const auto gradients = one_microbatch(m, forward, backward);
    versions.push_back(versions.back());
    for (std::size_t stage = 0; stage < gradients.size(); ++stage) {
      versions.back()[stage] -= gradients[stage];
      all[stage].push_back(gradients[stage]);
    }
  }
  return all;
}

namespace {

/// Computes every number by its definition, and stores it so that it is computed only once.
class OnDemand {
 public:
  explicit OnDemand(const Program& program)
      : program_(program), facts_(facts_of(program)), neighbours_(stage_neighbours(program)) {}

  std::vector<Gradients> run() {
    std::vector<Gradients> all(index(program_.rank_count()), Gradients(index(program_.stage_count())));
    for (const auto& [key, steps] : facts_.steps) {
      for (std::size_t k = 0; k < steps.size(); ++k) {
        all[index(key.second)][index(key.first)].push_back(step_gradient(key.first, key.second, k));
      }
    }
    return all;
  }

 private:
  Weights weights(std::int32_t stage, std::int32_t rank, std::int32_t version) {
    if (version == 0) return first_weights(stage);
    const auto [entry, fresh] = weights_.try_emplace({stage, rank, version});
    if (!fresh) return entry->second;
    Weights value = weights(stage, rank, version - 1);
    value -= step_gradient(stage, rank, index(version - 1));
    return weights_[{stage, rank, version}] = value;
  }

  Weights step_gradient(std::int32_t stage, std::int32_t rank, std::size_t k) {
    Weights sum;
    const bool reduced = facts_.steps.at({stage, rank})[k].reduced;
    for (const std::int32_t member : program_.placement.stages[index(stage)].ranks) {
      if (member != rank && !reduced) continue;
      for (const std::int32_t m : facts_.steps.at({stage, member})[k].microbatches) {
        const Number g = output_gradient(stage, m);
        sum += {g * stage_input(stage, m), g};
      }
    }
    return sum;
  }

  Number stage_input(std::int32_t stage, std::int32_t m) {
    const auto& givers = neighbours_.predecessors[index(stage)];
    if (givers.empty()) return input(m);
    Number x = 0;
    for (std::size_t i = 0; i < givers.size(); ++i) x += factor(i) * output(givers[i], m);
    return x;
  }

  Number output(std::int32_t stage, std::int32_t m) {
    if (const auto known = outputs_.find({stage, m}); known != outputs_.end()) return known->second;
    const Weights w = weights(stage, facts_.rank.at({stage, m}), facts_.forward_version.at({stage, m}));
    return outputs_[{stage, m}] = w.a * stage_input(stage, m) + w.b;
  }

  Number output_gradient(std::int32_t stage, std::int32_t m) {
    if (const auto known = gradients_.find({stage, m}); known != gradients_.end()) return known->second;
    const auto& givers = neighbours_.gradient_givers[index(stage)];
    Number g = givers.empty() ? output(stage, m) - target(m) : 0;
    for (const std::int32_t giver : givers) {
      const Weights w = weights(giver, facts_.rank.at({giver, m}), facts_.backward_version.at({giver, m}));
      g += factor_of(giver, stage) * w.a * output_gradient(giver, m);
    }
    return gradients_[{stage, m}] = g;
  }

  /// Returns the factor of the gradient that `giver` sends to `taker`: that of the taker's place among all
  /// stages to which `giver` sends gradients. An edge may carry gradients alone.
  Number factor_of(std::int32_t giver, std::int32_t taker) const {
    std::size_t i = 0;
    while (neighbours_.gradient_takers[index(giver)][i] != taker) ++i;
    return factor(i);
  }

  const Program& program_;
  ProgramFacts facts_;
  StageNeighbours neighbours_;
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, Weights> weights_;
  std::map<std::pair<std::int32_t, std::int32_t>, Number> outputs_;
  std::map<std::pair<std::int32_t, std::int32_t>, Number> gradients_;
};

}  // namespace

std::vector<Gradients> gradients_of(const Program& program) { return OnDemand(program).run(); }

}  // namespace penstock::echo
