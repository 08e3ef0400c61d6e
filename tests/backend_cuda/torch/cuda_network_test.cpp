// The network of a process without a GPU place: the parent of forked ranks, which only describes the network.

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/cuda/torch/cuda_network.hpp"
#include "backend/cuda/workers.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"

namespace penstock::nn {
namespace {

std::string words_of_child() {
  const auto count = cuda_device_count_by_child();
  return count ? std::to_string(count->devices) + " devices" : count.error();
}

/// Returns the family's description, and what a child says about the GPUs before and after the network was
/// made.
std::string said_without_places() {
  const auto scenario = parse_scenario(
      "model: {network: {mlp: {layers: 2, width: 8}}}\nschedule: {name: 1f1b, stages: 2, microbatches: 2}\n",
      "s.yaml", std::filesystem::path(), {});
  if (!scenario) return scenario.error();
  const auto experiment = prepare(*scenario);
  if (!experiment) return experiment.error().message;
  const std::string before = words_of_child();
  const auto modules = cuda_network(*experiment, std::vector<std::optional<CudaPlace>>(2));
  if (!modules) return modules.error();
  const std::string after = words_of_child();
  if (after != before) return "before: " + before + "; after: " + after;
  return modules->family->description();
}

[[noreturn]] void say_and_exit() {
  try {
    std::cerr << said_without_places();
  } catch (const std::exception& error) {
    std::cerr << "threw: " << error.what();
  }
  std::exit(0);  // NOLINT(concurrency-mt-unsafe): no other thread runs
}

// Without a GPU, LibTorch throws when CUDA is started. With one, a child that is forked afterwards cannot
// count the GPUs. A death test in the thread-safe style runs its statement in a new process of this program.
TEST(CudaNetwork, WithoutAPlaceItDoesNotStartCuda) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(say_and_exit(), testing::ExitedWithCode(0),
              "the network mlp on LibTorch on GPUs, in single precision$");
}

}  // namespace
}  // namespace penstock::nn
