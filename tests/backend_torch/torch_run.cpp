#include "tests/backend_torch/torch_run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>

#include "backend/executor/clock.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/threads/in_process_transport.hpp"
#include "backend/torch/torch_stage.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/text/program_text.hpp"

namespace penstock::nn {

testing::AssertionResult near(const at::Tensor& actual, const at::Tensor& expected) {
  if (!actual.defined() || actual.sizes() != expected.sizes()) {
    return testing::AssertionFailure() << "the shape differs";
  }
  if (expected.numel() == 0) return testing::AssertionSuccess();
  const double distance = actual.detach().sub(expected.detach()).abs().max().item().toDouble();
  const double largest = expected.detach().abs().max().item().toDouble();
  if (distance <= 1e-9 * std::max(1.0, largest)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "off by " << distance << ", the largest value is " << largest;
}

testing::AssertionResult near(const Tensors& actual, const Tensors& expected) {
  if (actual.size() != expected.size()) {
    return testing::AssertionFailure() << actual.size() << " tensors, expected " << expected.size();
  }
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (const auto result = near(actual[i], expected[i]); !result) {
      return testing::AssertionFailure() << "tensor " << i << ": " << result.message();
    }
  }
  return testing::AssertionSuccess();
}

bool same(const Tensors& actual, const Tensors& expected) {
  return std::ranges::equal(actual, expected,
                            [](const at::Tensor& a, const at::Tensor& b) { return at::equal(a, b); });
}

namespace {

/// Collects the losses of the last stages, and the data that remain in any stage.
void collect(const StageModules& modules, TorchRun& run) {
  for (const auto& of_rank : modules) {
    for (const auto& module : of_rank) {
      if (!module) continue;
      const auto& stage = dynamic_cast<const TorchStage&>(*module);
      for (const auto& [microbatch, loss] : stage.losses()) run.record.losses[microbatch] += loss;
      if (stage.held() != 0) run.error = std::to_string(stage.held()) + " microbatches are still held";
      if (stage.weights().version_count() != 1) run.error = "old weights are still held";
    }
  }
}

}  // namespace

Program complete(const Program& program) {
  if (const auto valid = validate(program); !valid) throw std::runtime_error(valid.error());
  auto done = lower(program);
  if (!done) throw std::runtime_error(done.error());
  return *std::move(done);
}

Program read_program(const std::string& text) {
  const auto program = parse_program(text, "test.psched");
  if (!program) throw std::runtime_error(program.error());
  return complete(*program);
}

std::vector<StageDefinition> even_stages(const TransformerShape& shape, std::int32_t stages,
                                         const SplitOptions& options) {
  const Model model = transformer(shape);
  return split(model, even_cut(model, stages), options);
}

TorchRun run_on_threads(const Program& program, const std::vector<StageDefinition>& definitions,
                        const Training& training) {
  at::set_num_threads(1);
  TorchRun run;
  std::mutex mutex;
  auto watched = std::make_shared<Training>(training);
  watched->observer = [&](const StepReport& step) {
    Tensors gradient;
    for (const at::Tensor& part : step.gradient) gradient.push_back(part.clone());
    const std::scoped_lock lock(mutex);
    run.record.gradients[{step.rank, step.stage, step.version}] = std::move(gradient);
  };
  const CostTable costs = unit_costs(program);
  const FlatProgram flat = flatten(program, costs, {.channels = {}, .iterations = program.iterations});
  const SteadyClock clock;
  InProcessTransport transport(flat, {}, {}, clock);
  StageModules modules = torch_modules(program, definitions, watched);
  const auto timeline = execute({.program = program,
                                 .flat = flat,
                                 .modules = modules,
                                 .transport = transport,
                                 .clock = clock,
                                 .deadline = std::chrono::seconds(60)});
  if (!timeline) {
    run.error = timeline.error().message;
  } else {
    collect(modules, run);
  }
  return run;
}

namespace {

/// Returns the part of the record that a rank's process must have: its own STEPs, and the losses that it
/// computes.
TrainingRecord of_rank(const Program& program, const TrainingRecord& all, std::int32_t rank) {
  TrainingRecord own;
  for (const auto& [key, gradient] : all.gradients) {
    if (std::get<0>(key) == rank) own.gradients[key] = gradient;
  }
  const std::int32_t last = program.stage_count() - 1;
  for (const auto& [microbatch, loss] : all.losses) {
    if (program.placement.rank_of(last, microbatch % program.unit_count()) == rank)
      own.losses[microbatch] = loss;
  }
  return own;
}

}  // namespace

std::string difference_in_processes(const Program& program, const std::vector<StageDefinition>& definitions,
                                    const Training& training, const TrainingRecord& expected) {
  at::set_num_threads(1);
  TorchRun run;
  auto watched = std::make_shared<Training>(training);
  watched->observer = [&](const StepReport& step) {
    Tensors gradient;
    for (const at::Tensor& part : step.gradient) gradient.push_back(part.clone());
    run.record.gradients[{step.rank, step.stage, step.version}] = std::move(gradient);
  };
  const CostTable costs = unit_costs(program);
  const FlatProgram flat = flatten(program, costs, {.channels = {}, .iterations = program.iterations});
  const TensorCodec codec;
  const auto runs = execute_in_processes(
      {.program = program,
       .flat = flat,
       .modules = [&](std::int32_t rank,
                      const Clock&) { return torch_modules(program, definitions, watched, rank); },
       .codec = &codec,
       .most_payload_bytes = std::size_t{1} << 20,
       .deadline = std::chrono::seconds(60),
       .finished =
           [&](std::int32_t rank, const StageModules& modules) {
             collect(modules, run);
             if (!run.error.empty()) throw std::runtime_error(run.error);
             const auto result = near(run.record, of_rank(program, expected, rank));
             if (!result) throw std::runtime_error(result.message());
             return RankAccount{};
           }});
  return runs ? "" : runs.error().message;
}

testing::AssertionResult near(const TrainingRecord& actual, const TrainingRecord& expected) {
  if (actual.gradients.size() != expected.gradients.size()) {
    return testing::AssertionFailure()
           << actual.gradients.size() << " steps, expected " << expected.gradients.size();
  }
  for (const auto& [key, gradient] : expected.gradients) {
    const auto& [rank, stage, version] = key;
    const std::string where = "rank " + std::to_string(rank) + ", stage " + std::to_string(stage) +
                              ", version " + std::to_string(version) + ": ";
    const auto found = actual.gradients.find(key);
    if (found == actual.gradients.end()) return testing::AssertionFailure() << where << "no such step";
    if (const auto result = near(found->second, gradient); !result) {
      return testing::AssertionFailure() << where << result.message();
    }
  }
  for (const auto& [microbatch, loss] : expected.losses) {
    const auto found = actual.losses.find(microbatch);
    if (found == actual.losses.end() || !(std::abs(found->second - loss) <= 1e-9)) {
      return testing::AssertionFailure() << "the loss of microbatch " << microbatch << " differs";
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace penstock::nn
