// Bad scenarios: must_fail/NAME.yaml beside NAME.expected, the exact message. PENSTOCK_UPDATE=1 in the
// environment rewrites the expectations instead; read the difference before keeping it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ios>
#include <string>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "tests/source_path.hpp"

namespace penstock {
namespace {

const std::filesystem::path kFolder = source_path("tests/scenarios/must_fail");

std::vector<std::string> bad_scenarios() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

/// Why a scenario of the folder cannot be run, files being shown relative to the folder.
std::string message_of(const std::string& name) {
  const auto text = read_text_file(kFolder / (name + ".yaml"), name);
  EXPECT_TRUE(text) << text.error();
  const auto scenario = parse_scenario(text.value_or(""), name + ".yaml", kFolder);
  if (!scenario) return scenario.error() + "\n";
  const auto experiment = prepare(*scenario);
  return experiment ? "no error\n" : experiment.error().message + "\n";
}

class MustFail : public testing::TestWithParam<std::string> {};

TEST_P(MustFail, WithItsMessage) {
  const std::filesystem::path path = kFolder / (GetParam() + ".expected");
  const std::string message = message_of(GetParam());
  if (std::getenv("PENSTOCK_UPDATE") != nullptr) std::ofstream(path, std::ios::binary) << message;
  EXPECT_EQ(message, read_text_file(path, path.string()).value_or("no file " + path.string()));
}

INSTANTIATE_TEST_SUITE_P(Scenarios, MustFail, testing::ValuesIn(bad_scenarios()),
                         [](const auto& bad) { return bad.param; });

}  // namespace
}  // namespace penstock
