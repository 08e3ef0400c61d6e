#include <filesystem>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/check/validate.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/test_files.hpp"
#include "text/csv_table.hpp"

namespace penstock {
namespace {

Program parsed(std::string_view csv) {
  auto program = parse_pytorch_csv(csv, "test.csv");
  EXPECT_TRUE(program) << program.error();
  return program ? *program : Program{};
}

/// Returns `csv` without blank cells and with LF line ends. It uses regular expressions and nothing of the
/// reader that is tested.
std::string without_blank_cells(std::string csv) {
  csv = std::regex_replace(csv, std::regex("[\r ]"), "");
  csv = std::regex_replace(csv, std::regex(",+"), ",");
  csv = std::regex_replace(csv, std::regex("(^|\n),"), "$1");
  csv = std::regex_replace(csv, std::regex(",?\n+"), "\n");
  return csv;
}

// These are dumps of torch.distributed.pipelining 2.11: 1F1B on 2 ranks as compute_only, as compute_comms,
// and as compute_comms with FSDP. ZB-V has idle cells, and DualPipeV has overlapped pairs.
const std::vector<std::string> kDumps = {
    R"(0F0,0F1,0B0,0B1
1F0,1B0,1F1,1B1
)",
    R"(0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1
1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1
)",
    R"(0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD
1UNSHARD,1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD
)",
    R"(0F0,0F1,,3F0,3I0,3W0,3F1,3I1,3W1,0I0,0W0,,,,0I1,0W1,,
,1F0,2F0,1F1,2F1,2I0,2W0,,1I0,1W0,,2I1,2W1,1I1,,,1W1,,
)",
    R"(0F0,0F1,0F2,3F0,3I0,3W0,3F1,(0F3;3B1)OVERLAP_F_B,(3F2;0B0)OVERLAP_F_B,3B2,(3F3;0B1)OVERLAP_F_B,3B3,0I2,0W2,0I3,0W3
1F0,2F0,1F1,2F1,1F2,2B0,(2F2;1B0)OVERLAP_F_B,(1F3;2B1)OVERLAP_F_B,(2F3;1B1)OVERLAP_F_B,2B2,1B2,2I3,1I3,2W3,1W3
)",
};

// str() of a list of actions has None for an idle step.
TEST(PyTorchCsv, ReadsNoneAsAnIdleStep) {
  EXPECT_EQ(parsed("0F0,0F1,None,None,0B0, None ,0B1\nNone,1F0,1B0,1F1,1B1\n"),
            parsed("0F0,0F1,,,0B0,,0B1\n,1F0,1B0,1F1,1B1\n"));
}

// The table of torch.distributed.pipelining, as _format_pipeline_order prints it.
TEST(PyTorchCsv, ReadsATableThatTorchPrints) {
  const Program expected = parsed("0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n");
  const std::string table =
      "        Rank 0 Rank 1\n"
      "Step 0: 0F0           \n"
      "Step 1: 0F1    1F0    \n"
      "Step 2:        1B0     <-- ERROR HERE\n"
      "Step 3: 0B0    1F1    \n"
      "Step 4:        1B1    \n"
      "Step 5: 0B1           \n";
  EXPECT_TRUE(is_printed_schedule(table));
  EXPECT_EQ(parsed(table), expected);
  EXPECT_EQ(parsed("=========== ALL_RANK_ACTIONS ===========\n" + table), expected);
  EXPECT_FALSE(is_printed_schedule("0F0,0B0\n"));
  const auto broken = parse_pytorch_csv("        Rank 0 \nStep 0: 0Q0    \n", "log.csv");
  ASSERT_FALSE(broken);
  EXPECT_TRUE(broken.error().starts_with("log.csv:1: rank 0: `0Q0`: ")) << broken.error();
}

TEST(PyTorchCsv, DumpsComeBackCellForCell) {
  for (const std::string& dump : kDumps) {
    const Program program = parsed(dump);
    EXPECT_TRUE(validate(program)) << validate(program).error();
    EXPECT_EQ(to_pytorch_csv(program).value(), without_blank_cells(dump));
  }
}

TEST(PyTorchCsv, FillsInPlacementMicrobatchesAndSteps) {
  EXPECT_EQ(to_text(parsed("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n")),
            "penstock program 1\n"
            "schedule custom\n"
            "microbatches 1\n"
            "stage 0: rank 0\n"
            "stage 1: rank 1\n"
            "stage 2: rank 1\n"
            "stage 3: rank 0\n"
            "rank 0: 0F0 3F0 3B0 0B0 0STEP 3STEP\n"
            "rank 1: 1F0 2F0 2B0 1B0 1STEP 2STEP\n");
}

TEST(PyTorchCsv, LineEndsBlanksAndQuotesDoNotMatter) {
  const Program plain = parsed("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  for (const auto* const csv :
       {"0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n", "0F0,0F1,0B0,0B1\r1F0,1B0,1F1,1B1",
        "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1", " 0F0 ,0F1\t,0B0,,0B1,\n,1F0,1B0,\"\",1F1,1B1\n\n\n",
        "\"0F0\",\"0F1\",0B0,0B1\n1F0,\"1\"B0,\" 1F1\n\",1B1\n"}) {
    EXPECT_EQ(parsed(csv), plain) << csv;
  }
}

// The expected rows are those that Python's csv.reader gives for this text.
TEST(CsvRows, AreThoseOfPythonsReader) {
  const auto rows = csv_rows("a,\"b,\"\"c\"\"\nd\"x,\r\n,\r\n\r\n e ,f\"g\"\r\n\n");
  ASSERT_TRUE(rows) << rows.error().message;
  std::vector<std::vector<std::string>> cells;
  for (const CsvRow& row : *rows) cells.push_back(row.cells);
  EXPECT_EQ(cells, (std::vector<std::vector<std::string>>{
                       {"a", "b,\"c\"\ndx", ""}, {"", ""}, {}, {" e ", "f\"g\""}}));
  EXPECT_EQ((*rows)[1].line, 3U);
  EXPECT_EQ((*rows)[3].line, 5U);
}

TEST(PyTorchCsv, LinesAreCountedThroughQuotedLineEnds) {
  const auto program = parse_pytorch_csv("0F0,\"\n\n\",0B0\n1F0,1Q0\n", "test.csv");
  ASSERT_FALSE(program);
  EXPECT_EQ(
      program.error(),
      "test.csv:4: rank 1: `1Q0`: unknown action `Q`. Known: F, B, I, W, SEND_F, RECV_F, SEND_B, "
      "RECV_B, UNSHARD, RESHARD, REDUCE_GRAD, WAIT_SEND_F, WAIT_SEND_B, WAIT_REDUCE_GRAD, OFFLOAD, RELOAD");
}

// The cells are those of Schedule1F1B(...)._get_pipeline_order() of torch 2.11 on 2 ranks with 4
// microbatches.
TEST(PyTorchCsv, TheForwardsThatTorchCountsFrom1AreMendedAndNamed) {
  const auto imported = import_pytorch_csv(
      "0F0,,,0F1,0B0,0F2,0B1,0F3,0B2,,0B3,0REDUCE_GRAD\n"
      ",1F1,1B0,1F2,1B1,1F3,1B2,1F4,1B3,1REDUCE_GRAD\n",
      "dump.csv");
  ASSERT_TRUE(imported) << imported.error();
  EXPECT_EQ(to_pytorch_csv(imported->program).value(),
            "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3,0REDUCE_GRAD\n"
            "1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3,1REDUCE_GRAD\n");
  const auto valid = validate(imported->program);
  EXPECT_TRUE(valid) << valid.error();
  EXPECT_EQ(imported->notes, std::vector<std::string>{
                                 "dump.csv:2: rank 1: its forwards are numbered 1 to 4 and were read as 0 to "
                                 "3, as their backwards are: torch 2.11 dumps the last rank of its 1F1B so"});
}

TEST(PyTorchCsv, TheForwardsOfOneRankAloneAreMendedToo) {
  const auto imported = import_pytorch_csv("0F1,0B0,0F2,0B1\n", "one_rank.csv");
  ASSERT_TRUE(imported) << imported.error();
  EXPECT_EQ(to_pytorch_csv(imported->program).value(), "0F0,0B0,0F1,0B1\n");
  EXPECT_EQ(imported->notes.size(), 1U);
}

TEST(PyTorchCsv, NothingElseIsMended) {
  const std::vector<std::string> refused = {
      "0F0,0F1,0B0,0B1\n1F1,1B0,1F2,1B2\n",  // the backwards have other numbers
      "0F0,0F1,0B0,0B1\n1F0,1B0,1F2,1B1\n",  // a number is missing
      "0F1,0F2,0B0,0B1\n1F0,1B0,1F1,1B1\n",  // it is not the last rank
      // It is the last stage, but its rank has another stage.
      "0F0,0F1,2F1,2B0,2F2,2B1,0B0,0B1\n1F0,1F1,1B0,1B1\n"};
  for (const std::string& csv : refused) {
    const auto imported = import_pytorch_csv(csv, "test.csv");
    ASSERT_FALSE(imported) << csv;
    EXPECT_NE(imported.error().find("is outside 0..1"), std::string::npos) << imported.error();
  }
  EXPECT_TRUE(import_pytorch_csv(kDumps[0], "test.csv")->notes.empty());
}

TEST(PyTorchCsv, AByteOrderMarkIsSkipped) {
  EXPECT_EQ(parsed("\xEF\xBB\xBF" + kDumps[0]), parsed(kDumps[0]));
}

TEST(PyTorchCsv, RefusesToWriteWhatTheFormCannotSay) {
  const std::string base =
      "penstock program 1\nschedule custom\nmicrobatches 1\nOPTION\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0B0 0STEP\nrank 1: 1F0 1B0 1STEP\n";
  struct Case {
    std::string from;
    std::string to;
    std::string reason;
  };
  const std::vector<Case> cases = {
      {"OPTION", "iterations 3", "it runs 3 iterations and must run one"},
      {"OPTION", "slices 2", "microbatches have 2 slices and must have one"},
      {"OPTION", "update microbatch", "it must update once a minibatch"},
      {"OPTION", "edges 1>0", "the stage edges must form a chain"},
      {"stage 1: rank 1", "stage 1: ranks 0 1 route 1",
       "stage 1 has 2 replicas, and each stage must be on one rank"},
      {"0F0 0B0", "0F0 0R0 0B0", "rank 0: 0R0: there is no R; turn recomputation off"},
      {"1B0", "1B0@1", "rank 1: 1B0: weight version 1 must be 0, since there is no STEP"},
  };
  for (const Case& bad : cases) {
    std::string text = base;
    text.replace(text.find(bad.from), bad.from.size(), bad.to);
    if (bad.from != "OPTION") text.erase(text.find("OPTION\n"), 7);
    const auto csv = to_pytorch_csv(parse_program(text, "test").value());
    ASSERT_FALSE(csv) << bad.to;
    EXPECT_EQ(csv.error(), "PyTorch's CSV cannot express this program: " + bad.reason);
  }
}

TEST(PyTorchCsv, AChainThatIsSpelledOutIsAChain) {
  Program program = parsed(kDumps[0]);
  program.edges = stage_edges(program);
  EXPECT_EQ(to_pytorch_csv(program).value(), kDumps[0]);
}

TEST(PyTorchCsv, ReferenceFilesComeBackCellForCell) {
  std::vector<std::filesystem::path> files = test::files_in(test::kReference / "pytorch", ".csv");
  const auto deadlock = test::files_in(test::kReference / "deadlock", ".csv");
  files.insert(files.end(), deadlock.begin(), deadlock.end());
  if (files.empty()) GTEST_SKIP() << "no reference files under " << test::kReference;
  for (const auto& file : files) {
    const std::string text = test::text_of(file);
    const auto program = parse_pytorch_csv(text, file.filename().string());
    ASSERT_TRUE(program) << program.error();
    const auto valid = validate(*program);
    EXPECT_TRUE(valid) << file.filename() << ": " << valid.error();
    EXPECT_EQ(to_pytorch_csv(*program).value(), without_blank_cells(text)) << file.filename();
  }
}

TEST(PyTorchCsv, LoweringTheReferenceFilesGivesTheirComms) {
  const auto files = test::files_in(test::kReference / "pytorch", ".compute_only.csv");
  if (files.empty()) GTEST_SKIP() << "no reference files under " << test::kReference;
  for (const auto& file : files) {
    std::string comms = file.string();
    comms.replace(comms.find("compute_only"), 12, "compute_comms");
    const auto computes = parse_pytorch_csv(test::text_of(file), file.filename().string());
    ASSERT_TRUE(computes) << computes.error();
    const auto program = lower(*computes);
    ASSERT_TRUE(program) << file << ": " << program.error();
    EXPECT_EQ(to_pytorch_csv(*program).value(), without_blank_cells(test::text_of(comms))) << file.filename();
  }
}

// This is PyTorch's own unit test of its ZB-1p: I and W are merged, and then messages are added.
TEST(PyTorchCsv, MergingAndLoweringTheZeroBubbleExampleGivesItsComms) {
  const auto folder = test::kReference / "pytorch";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no reference files under " << test::kReference;
  const Program compute = parsed(test::text_of(folder / "zb1p_2rank_2stagep_compute.csv"));
  const auto lowered = lower(merge_backward(compute));
  ASSERT_TRUE(lowered) << lowered.error();
  EXPECT_EQ(to_pytorch_csv(*lowered).value(),
            without_blank_cells(test::text_of(folder / "zb1p_2rank_2stagep_comms.csv")));
}

// Tests the older dialects of PyTorch's CSV.

using testing::HasSubstr;

/// Returns the CSV in the newest dialect.
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

// A dump of torch 2.11 is converted to the dialect of torch 2.5 and read again.
TEST(CsvDialect, TakesTheDumpsOfTorch) {
  const auto dumps = test::files_in(test::kReference / "pytorch", ".csv");
  if (dumps.empty()) GTEST_SKIP() << "no reference material beside the checkout";
  int said = 0;
  for (const auto& file : dumps) {
    const auto program = parse_pytorch_csv(test::text_of(file), file.filename().string());
    if (!program) continue;  // this file is refused on purpose
    const auto old = to_pytorch_csv(*program, CsvDialect::torch_2_5);
    if (!old) continue;
    EXPECT_EQ(modern(*old, CsvDialect::torch_2_5), *to_pytorch_csv(*program)) << file;
    ++said;
  }
  EXPECT_GE(said, 50);
}

}  // namespace
}  // namespace penstock
