// What scripts learn from a run that did not end well.

#include "cli/commands/measuring.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <tl/expected.hpp>

#include "backend/executor/measured_run.hpp"
#include "cli/extensions.hpp"
#include "cli/outcome.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock {
namespace {

TEST(Measuring, EachFaultOfARunHasAnExitCode) {
  const std::vector<std::pair<RunFault, ExitCode>> codes = {{RunFault::failed, ExitCode::run_failed},
                                                            {RunFault::invalid, ExitCode::check_failed},
                                                            {RunFault::bad_input, ExitCode::bad_input},
                                                            {RunFault::unavailable, ExitCode::not_available}};
  for (const auto& [fault, code] : codes) {
    const auto failure = failure_of({.message = "rank 1: the weights are gone", .fault = fault});
    EXPECT_EQ(failure.value().code, code);
    EXPECT_EQ(failure.value().message, "rank 1: the weights are gone");
  }
}

TEST(Measuring, ANetworkThatLacksAPartIsBadInput) {
  Experiment experiment;
  experiment.network.emplace();
  Extensions extensions;
  extensions.network = [](const Experiment&) { return tl::unexpected(std::string("conv-net: no width")); };
  const auto result = measure_by_backend(experiment, {}, {}, std::nullopt, extensions);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().fault, RunFault::bad_input);
  EXPECT_EQ(result.error().message, "conv-net: no width");
}

}  // namespace
}  // namespace penstock
