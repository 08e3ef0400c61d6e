// Programs given as files: by any spelling of their suffix, in any dialect of PyTorch's.

#include <unistd.h>

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "scenarios/read/file_suffix.hpp"
#include "scenarios/read/override.hpp"
#include "scenarios/read/program_scenario.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "schedules/text/pytorch_csv.hpp"
#include "tests/scratch_folder.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

class ProgramFile : public testing::Test {
 protected:
  fs::path written(const std::string& name, const std::string& text) const {
    return folder_.write(name, text);
  }

  ScratchFolder folder_;
};

Program loaded(const fs::path& file, const std::vector<Override>& overrides = {}) {
  const auto scenario = load_scenario_or_program(file, overrides);
  EXPECT_TRUE(scenario) << scenario.error();
  return scenario && scenario->program ? *scenario->program : Program{};
}

TEST_F(ProgramFile, MayHaveItsSuffixInCapitals) {
  const Program program = *generate("zb-h1", {.stages = 2, .microbatches = 3});
  EXPECT_EQ(loaded(written("PLAN.PSCHED", to_text(program))), program);
  EXPECT_EQ(loaded(written("Plan.Csv", *to_pytorch_csv(program))).ranks, program.ranks);
  EXPECT_EQ(loaded(written("plan.yaml", "schedule: {program: PLAN.PSCHED}")), program);
  EXPECT_EQ(loaded(written("short.yaml", "schedule: PLAN.PSCHED")), program);
}

TEST_F(ProgramFile, MayBeginWithAByteOrderMark) {
  const std::string mark = "\xEF\xBB\xBF";
  const Program program = *generate("zb-h1", {.stages = 2, .microbatches = 3});
  EXPECT_EQ(loaded(written("plan.psched", mark + to_text(program))), program);
  EXPECT_EQ(loaded(written("plan.csv", mark + *to_pytorch_csv(program))).ranks, program.ranks);
  EXPECT_EQ(loaded(written("plan.yaml", mark + "schedule: {program: plan.psched}")), program);
  EXPECT_EQ(loaded(written("plan.json", mark + R"({"schedule": {"program": "plan.psched"}})")), program);
}

TEST_F(ProgramFile, IsNotedWhenItHadToBeMended) {
  const auto scenario = load_scenario_or_program(written("dump.csv", "0F0,0B0\n1F1,1B0\n"));
  ASSERT_TRUE(scenario) << scenario.error();
  ASSERT_EQ(scenario->notes.size(), 1U);
  EXPECT_NE(scenario->notes.front().find("dump.csv:2: rank 1: its forwards are numbered 1 to 1"),
            std::string::npos)
      << scenario->notes.front();
}

TEST_F(ProgramFile, IsReadInTheDialectThatIsStated) {
  const Program program = *generate("zb-h1", {.stages = 2, .microbatches = 3});
  const fs::path old = written("old.csv", *to_pytorch_csv(program, CsvDialect::torch_2_5));
  EXPECT_EQ(loaded(old, {{.key = "schedule.dialect", .value = "torch-2.5"}}).ranks, program.ranks);
  EXPECT_EQ(loaded(written("old.yaml", "schedule: {program: old.csv, dialect: torch-2.5}")).ranks,
            program.ranks);
  const auto misread = load_scenario_or_program(old);
  ASSERT_FALSE(misread);
  EXPECT_NE(misread.error().find("`--dialect torch-2.5`"), std::string::npos) << misread.error();
}

TEST(FileSuffix, StandsAtTheEnd) {
  EXPECT_TRUE(has_file_suffix("a.csv", ".csv"));
  EXPECT_TRUE(has_file_suffix("a.b.CSV", ".csv"));
  EXPECT_FALSE(has_file_suffix("csv", ".csv"));
  EXPECT_FALSE(has_file_suffix("a.csv.txt", ".csv"));
  EXPECT_TRUE(names_program("x/Y.PsCheD"));
  EXPECT_FALSE(names_program("plan.yaml"));
}

}  // namespace
}  // namespace penstock
