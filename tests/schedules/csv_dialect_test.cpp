// The older spellings of PyTorch's CSV.

#include "schedules/text/csv_dialect.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/check/validate.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/passes/merge_backward.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "schedules/text/pytorch_csv.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/schedules/text_files.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;

/// The CSV in the newest dialect.
std::string modern(const std::string& csv, CsvDialect dialect) {
  const auto program = parse_pytorch_csv(csv, "old.csv", dialect);
  if (!program) return program.error();
  const auto valid = validate(*program);
  EXPECT_TRUE(valid) << valid.error();
  return *to_pytorch_csv(*program);
}

TEST(CsvDialect, OfTorch25HasTheFullBackwardAsBWhereThereIsNoW) {
  EXPECT_EQ(modern("0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n", CsvDialect::torch_2_5),
            "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
}

TEST(CsvDialect, OfTorch25HasTheInputHalfAsBWhereItsWFollows) {
  EXPECT_EQ(modern("0F0,0B0,0F1,0W0,0BW1\n", CsvDialect::torch_2_5), "0F0,0I0,0F1,0W0,0B1\n");
  EXPECT_EQ(modern("0F0,0F1,0B1,0B0,0W1\n", CsvDialect::torch_2_5), "0F0,0F1,0I1,0B0,0W1\n")
      << "each microbatch for itself";
}

TEST(CsvDialect, OfTorch25HasTwoMessagesInOneCell) {
  EXPECT_EQ(modern("0F0,0SEND_F0,0F1,0SEND_F1_0RECV_B0,0B0,0RECV_B1,0B1\n"
                   "1RECV_F0,1F0,1B0,1SEND_B0_1RECV_F1,1F1,1B1,1SEND_B1\n",
                   CsvDialect::torch_2_5),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
}

TEST(CsvDialect, OfTorch24NamesTheStageLast) {
  EXPECT_EQ(modern("F0_s0,F1_s0,B0_s0,B1_s0\nF0_s1,B0_s1,F1_s1,B1_s1\n", CsvDialect::torch_2_4),
            "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_EQ(modern("F0_s0,B0_s0,W0_s0\n", CsvDialect::torch_2_4), "0F0,0I0,0W0\n");
}

TEST(CsvDialect, ComesBackFromEveryProgramThatItCanSay) {
  int said = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    Shape shape{.stages = 4, .microbatches = 8};
    shape.virtual_stages = chunks_to_try(schedule);
    const Program compute = *generate(schedule.name, shape);
    for (const Program& program : {compute, *lower(compute), merge_backward(compute)}) {
      for (const auto& [dialect, word] : kEnumWords<CsvDialect>) {
        SCOPED_TRACE(testing::Message() << schedule.name << " in " << word);
        const auto csv = to_pytorch_csv(program, dialect);
        const auto newest = to_pytorch_csv(program);
        if (!csv) continue;
        ASSERT_TRUE(newest);
        EXPECT_EQ(modern(*csv, dialect), *newest);
        ++said;
      }
    }
  }
  EXPECT_GE(said, 80);
}

TEST(CsvDialect, SaysBWOnlyBesideHalves) {
  const Program whole = *generate("1f1b", {.stages = 1, .microbatches = 2});
  EXPECT_EQ(*to_pytorch_csv(whole, CsvDialect::torch_2_5), "0F0,0B0,0F1,0B1\n");
  EXPECT_EQ(*to_pytorch_csv(whole, CsvDialect::torch_2_4), "F0_s0,B0_s0,F1_s0,B1_s0\n");
  const Program some = *parse_pytorch_csv("0F0,0B0,0F1,0I1,0W1\n", "new.csv");
  EXPECT_EQ(*to_pytorch_csv(some, CsvDialect::torch_2_5), "0F0,0BW0,0F1,0B1,0W1\n");
  EXPECT_THAT(to_pytorch_csv(some, CsvDialect::torch_2_4).error(),
              HasSubstr("rank 0: 0B0: torch-2.4 has F, B or W only"));
}

TEST(CsvDialect, RefusesWhatItHasNoWordFor) {
  const Program lowered = *lower(*generate("1f1b", {.stages = 2, .microbatches = 2}));
  EXPECT_TRUE(to_pytorch_csv(lowered, CsvDialect::torch_2_5));
  EXPECT_THAT(to_pytorch_csv(lowered, CsvDialect::torch_2_4).error(),
              HasSubstr("0SEND_F0: torch-2.4 has F, B or W"));
  const Program pairs = *generate("dualpipe-v", {.stages = 2, .microbatches = 4});
  EXPECT_THAT(to_pytorch_csv(pairs, CsvDialect::torch_2_5).error(),
              HasSubstr("torch-2.5 has no overlapped pairs"));
  const Program reduced = *parse_pytorch_csv("0F0,0B0,0REDUCE_GRAD\n", "new.csv");
  EXPECT_THAT(to_pytorch_csv(reduced, CsvDialect::torch_2_5).error(),
              HasSubstr("0REDUCE_GRAD: torch-2.5 has F, B,"));
}

TEST(CsvDialect, OffersTheOneThatACellIsOf) {
  const auto error_of = [](const std::string& csv, CsvDialect dialect) {
    return parse_pytorch_csv(csv, "old.csv", dialect).error();
  };
  EXPECT_THAT(error_of("F0_s0\n", CsvDialect::torch_2_6), HasSubstr("`--dialect torch-2.4`"));
  EXPECT_THAT(error_of("0F0,0BW0\n", CsvDialect::torch_2_6), HasSubstr("`--dialect torch-2.5`"));
  EXPECT_THAT(error_of("0F0,0I0,0W0\n", CsvDialect::torch_2_5), HasSubstr("`--dialect torch-2.6`"));
  EXPECT_THAT(error_of("0F0,0SEND_F0_1F0\n", CsvDialect::torch_2_5),
              HasSubstr("expected a RECV after a SEND"));
  EXPECT_THAT(error_of("0F0x\n", CsvDialect::torch_2_5), HasSubstr("the end of the cell"));
  EXPECT_THAT(error_of("F\n", CsvDialect::torch_2_4), HasSubstr("a microbatch number after the letter"));
  EXPECT_THAT(error_of("F0s0\n", CsvDialect::torch_2_4), HasSubstr("`_s` and a stage number"));
}

TEST(CsvDialect, HasANameWithOrWithoutTorch) {
  for (const auto& [dialect, word] : kEnumWords<CsvDialect>) EXPECT_EQ(csv_dialect_of_text(word), dialect);
  EXPECT_EQ(csv_dialect_of_text("2.4"), CsvDialect::torch_2_4);
  EXPECT_EQ(csv_dialect_of_text("torch-2.3"), std::nullopt);
}

// What torch 2.11 dumped, said as torch 2.5 would have and read again.
TEST(CsvDialect, TakesTheDumpsOfTorch) {
  const auto dumps = test::files_in(test::kReference / "pytorch", ".csv");
  if (dumps.empty()) GTEST_SKIP() << "no reference material beside the checkout";
  int said = 0;
  for (const auto& file : dumps) {
    const auto program = parse_pytorch_csv(test::text_of(file), file.filename().string());
    if (!program) continue;  // the one that is refused on purpose
    const auto old = to_pytorch_csv(*program, CsvDialect::torch_2_5);
    if (!old) continue;
    EXPECT_EQ(modern(*old, CsvDialect::torch_2_5), *to_pytorch_csv(*program)) << file;
    ++said;
  }
  EXPECT_GE(said, 50);
}

}  // namespace
}  // namespace penstock
