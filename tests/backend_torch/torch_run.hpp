#pragma once
// Runs programs with LibTorch stages on threads, and compares what they computed with a reference.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/executor/executor.hpp"
#include "backend/torch/models.hpp"
#include "backend/torch/torch_stage.hpp"
#include "schedules/ir/program.hpp"
#include "tests/backend_torch/reference_training.hpp"

namespace penstock::nn {

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
