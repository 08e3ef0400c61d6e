#pragma once
// Runs programs with LibTorch stages on threads, and compares the tensors that they computed with a
// reference.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/executor/executor.hpp"
#include "backend/torch/layers.hpp"
#include "backend/torch/models.hpp"
#include "backend/torch/torch_stage.hpp"
#include "schedules/ir/program.hpp"
#include "tests/backend_torch/reference_training.hpp"

namespace penstock::nn {

/// 1e-9 of the larger of 1 and the largest expected magnitude: what two orders of summation in double may
/// differ by, and no formula.
testing::AssertionResult near(const at::Tensor& actual, const at::Tensor& expected);
/// Each of them, and as many.
testing::AssertionResult near(const Tensors& actual, const Tensors& expected);

/// Bit by bit.
bool same(const Tensors& actual, const Tensors& expected);

// Runs programs with LibTorch stages on threads, and compares what they computed with a reference.

/// Validated and lowered. Test-fatal (throws) when that fails.
Program complete(const Program& program);
Program read_program(const std::string& text);

/// The transformer in neighbouring pieces, as even as can be.
std::vector<StageDefinition> even_stages(const TransformerShape& shape, std::int32_t stages,
                                         const SplitOptions& options);

struct TorchRun {
  TrainingRecord record;
  std::string error;  ///< empty when the run ended well and left nothing behind
};

/// Executes a lowered program on one thread a rank. Any observer of `training` is replaced.
TorchRun run_on_threads(const Program& program, const std::vector<StageDefinition>& definitions,
                        const Training& training);

/// Executes it with a process a rank, each of which compares its STEPs and losses with the expected ones.
/// What is wrong, or nothing.
std::string difference_in_processes(const Program& program, const std::vector<StageDefinition>& definitions,
                                    const Training& training, const TrainingRecord& expected);

/// The same STEPs with the same gradients, and the same losses, to 1e-9.
testing::AssertionResult near(const TrainingRecord& actual, const TrainingRecord& expected);

}  // namespace penstock::nn
