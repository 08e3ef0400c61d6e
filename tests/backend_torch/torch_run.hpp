#pragma once
// Runs programs with LibTorch stages on threads, and compares their tensors with a reference.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/executor/executor.hpp"
#include "backend/torch/layers.hpp"
#include "backend/torch/networks.hpp"
#include "backend/torch/torch_stage.hpp"
#include "schedules/ir/program.hpp"
#include "tests/backend_torch/reference_training.hpp"

namespace penstock::nn {

/// Compares two tensors. The tolerance is 1e-9 times the larger of 1 and the largest expected magnitude. Two
/// orders of summation in double precision differ by less, but a wrong formula does not.
testing::AssertionResult near(const at::Tensor& actual, const at::Tensor& expected);
/// Compares two lists of tensors, which must have equal lengths.
testing::AssertionResult near(const Tensors& actual, const Tensors& expected);

/// Returns true if all tensors are equal bit by bit.
bool same(const Tensors& actual, const Tensors& expected);

/// Returns the program, validated and lowered. Throws if it is invalid.
Program complete(const Program& program);
Program read_program(const std::string& text);

/// Returns the transformer, cut into stages that are as equal as possible.
std::vector<StageDefinition> even_stages(const TransformerShape& shape, std::int32_t stages,
                                         const SplitOptions& options);

struct TorchRun {
  TrainingRecord record;
  std::string error;  ///< the error; empty if the run succeeded and no data remain in the stages
};

/// Executes a lowered program with one thread for each rank. Replaces the observer of `training`.
TorchRun run_on_threads(const Program& program, const std::vector<StageDefinition>& definitions,
                        const Training& training);

/// Executes the program with one process for each rank. Each process compares its STEPs and losses with the
/// expected ones. Returns a text about the first difference, or an empty text.
std::string difference_in_processes(const Program& program, const std::vector<StageDefinition>& definitions,
                                    const Training& training, const TrainingRecord& expected);

/// Compares two records. They must have the same STEPs, and gradients and losses that are equal within 1e-9.
testing::AssertionResult near(const TrainingRecord& actual, const TrainingRecord& expected);

}  // namespace penstock::nn
