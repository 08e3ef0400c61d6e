// What scripts learn from a run that did not end well.

#include "cli/commands/measuring.hpp"

#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <tl/expected.hpp>

#include "cli/extensions.hpp"
#include "cli/outcome.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock {
namespace {

TEST(Measuring, EachKindOfErrorHasAnExitCode) {
  EXPECT_EQ(exit_code_of(ErrorKind::bad_input), ExitCode::bad_input);
  EXPECT_EQ(exit_code_of(ErrorKind::check_failed), ExitCode::check_failed);
  EXPECT_EQ(exit_code_of(ErrorKind::run_failed), ExitCode::run_failed);
  EXPECT_EQ(exit_code_of(ErrorKind::not_available), ExitCode::not_available);
}

TEST(Measuring, ANetworkThatLacksAPartIsBadInput) {
  Experiment experiment;
  experiment.network.emplace();
  Extensions extensions;
  extensions.network = [](const Experiment&) { return tl::unexpected(std::string("conv-net: no width")); };
  const auto result = measure_by_backend(experiment, {}, {}, std::nullopt, extensions);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(result.error().message, "conv-net: no width");
}

}  // namespace
}  // namespace penstock
