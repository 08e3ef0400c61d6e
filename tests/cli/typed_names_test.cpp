// Names with line ends, colours and YAML's own marks: what is said about them is one line, and what they name
// is found.

#include "cli/typed_names.hpp"

#include <array>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/transcript.hpp"
#include "tests/scratch_folder.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(TypedNames, AreShownWhereverAMessageRepeatsThem) {
  const std::array<const char*, 4> arguments = {"penstock", "simulate", "--set=a\x1b[8m=b", "d\nx/s.yaml"};
  EXPECT_EQ(with_names_shown("d\nx/s.yaml:1: a\x1b[8m\nand d\nx/other.yaml", arguments),
            "d\\x0ax/s.yaml:1: a\\x1b[8m\nand d\\x0ax/other.yaml");
  EXPECT_EQ(with_names_shown("two\nlines\twith a tab", arguments), "two\nlines\twith a tab");
  EXPECT_EQ(with_names_shown("nothing", {}), "nothing");
}

class OddNames : public testing::Test {
 protected:
  OddNames() { std::filesystem::create_directory(folder_.path() / kName); }
  /// `command` behind a shell that knows the folder with the odd name as $odd.
  std::string outcome(const std::string& command) const {
    return outcome_of("odd=$(printf 'a: #\\n\\033[31mb'); " + command, folder_.path());
  }
  void write(const std::string& file, const std::string& content) const {
    folder_.write(std::string(kName) + "/" + file, content);
  }

  static constexpr const char* kName = "a: #\n\x1b[31mb";
  ScratchFolder folder_;
};

TEST_F(OddNames, EndNoLineOfAMessage) {
  write("bad.yaml", "model: {stages: {forward: oops}}");
  write("bad.csv", "a,b\n");
  write("bad.json", "{}");
  for (const char* const command :
       {"penstock simulate \"$odd/bad.yaml\"", "penstock runs \"$odd/bad.csv\"",
        "penstock check --baseline \"$odd/bad.json\"", "penstock compare \"$odd/bad.json\" bad.json",
        "penstock \"$odd\"", "penstock simulate \"--$odd\"",
        "penstock simulate --schedule 1f1b --pp-size 2 --num-microbatches 2 -o \"$odd/x.oops\""}) {
    const std::string printed = outcome(command);
    EXPECT_THAT(printed, HasSubstr("a: #\\x0a\\x1b[31mb")) << command;
    EXPECT_THAT(printed, Not(HasSubstr("\x1b"))) << command;
    EXPECT_THAT(printed, HasSubstr("[exit 2]")) << command;
  }
}

TEST_F(OddNames, AreNoYaml) {
  write("p.psched",
        "penstock program 1\nschedule s\nmicrobatches 1\nstage 0: rank 0\nrank 0: 0F0 0B0 0STEP\n");
  write("config.json", "{}");
  const std::string simulated = outcome("penstock simulate \"$odd/p.psched\"");
  EXPECT_THAT(simulated, HasSubstr("scenario    a: #\\x0a\\x1b[31mb/p.psched\n"));
  EXPECT_THAT(simulated, Not(HasSubstr("[exit")));
  EXPECT_THAT(outcome("penstock model \"$odd/config.json\""), HasSubstr("config.json:1:1: expected "));
  EXPECT_THAT(outcome("penstock simulate --model \"$odd/config.json\" --device h100-sxm --nodes 1"),
              HasSubstr("config.json:1:1: expected "));
}

TEST_F(OddNames, AreShownInAnswers) {
  write(
      "s.yaml",
      "model: {stages: {forward: 1 ms, backward: 2 ms}}\nschedule: {name: 1f1b, stages: 2, microbatches: 2}");
  for (const char* const command : {"penstock simulate \"$odd/s.yaml\" -o \"$odd/x.json\"",
                                    "penstock check \"$odd/s.yaml\" --baseline \"$odd/b.json\" --update"}) {
    const std::string printed = outcome(command);
    EXPECT_THAT(printed, HasSubstr("a: #\\x0a\\x1b[31mb")) << command;
    EXPECT_THAT(printed, Not(HasSubstr("\x1b"))) << command;
    EXPECT_THAT(printed, Not(HasSubstr("[exit"))) << command;
  }
}

// It would be another name when it is read again, which no file has.
TEST_F(OddNames, ThatAreNoUtf8AreNotListedInABaseline) {
  folder_.write("a\xff.yaml", "schedule: {name: 1f1b, stages: 2, microbatches: 2}");
  EXPECT_EQ(outcome("penstock check \"$(printf 'a\\377.yaml')\" --baseline b.json --update"),
            "! penstock: a\xef\xbf\xbd.yaml: expected a name in UTF-8, which is all that the JSON of a "
            "baseline can "
            "hold; rename the file\n[exit 2]\n");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "b.json"));
}

}  // namespace
}  // namespace penstock
