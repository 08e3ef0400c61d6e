// The examples that --help shows work as they stand, in the source directory.

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/transcript.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/source_path.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// A folder in which the ready-made scenarios are found and files may be written.
class HelpExamples : public testing::TestWithParam<const char*> {
 protected:
  HelpExamples() {
    fs::create_directory_symlink(fs::path(source_path()) / "scenarios", folder_.path() / "scenarios");
  }

  /// The lines under "Examples:", up to a pipe into another program.
  std::vector<std::string> examples() const {
    std::istringstream help(outcome_of(std::string("penstock ") + GetParam() + " --help", folder_.path()));
    std::vector<std::string> commands;
    bool inside = false;
    for (std::string line; std::getline(help, line);) {
      inside |= line.starts_with("Examples:");
      if (inside && line.starts_with("  penstock")) commands.push_back(line.substr(2, line.find(" | ") - 2));
    }
    return commands;
  }

  ScratchFolder folder_;
};

TEST_P(HelpExamples, AllWork) {
  const std::vector<std::string> commands = examples();
  EXPECT_FALSE(commands.empty());
  for (const std::string& command : commands) {
    EXPECT_THAT(outcome_of(command, folder_.path()), testing::Not(testing::HasSubstr("[exit")))
        << "$ " << command;
  }
}

// `run`, `calibrate` and `compare` take as long as what they measure; those of `diff` name files of a user.
INSTANTIATE_TEST_SUITE_P(OfCommand, HelpExamples,
                         testing::Values("", "simulate", "sweep", "show", "check", "convert", "plan", "model",
                                         "schedules", "reproduce", "fit", "largest"),
                         [](const auto& command) {
                           return *command.param == '\0' ? std::string("penstock")
                                                         : std::string(command.param);
                         });

}  // namespace
}  // namespace penstock
