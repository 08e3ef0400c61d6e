#include "schedules/text/pytorch_csv.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/check/validate.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/passes/merge_backward.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/schedules/text_files.hpp"
#include "text/csv_rows.hpp"

namespace penstock {
namespace {

Program parsed(std::string_view csv) {
  auto program = parse_pytorch_csv(csv, "test.csv");
  EXPECT_TRUE(program) << program.error();
  return program ? *program : Program{};
}

/// `csv` without blank cells and with LF line ends, by patterns: nothing of the reader under test.
std::string without_blank_cells(std::string csv) {
  csv = std::regex_replace(csv, std::regex("[\r ]"), "");
  csv = std::regex_replace(csv, std::regex(",+"), ",");
  csv = std::regex_replace(csv, std::regex("(^|\n),"), "$1");
  csv = std::regex_replace(csv, std::regex(",?\n+"), "\n");
  return csv;
}

// Dumps of torch.distributed.pipelining 2.11: 1F1B on 2 ranks as compute_only, compute_comms and the same
// with FSDP, ZB-V with idle cells, DualPipeV with overlapped pairs.
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

// Expected: what Python's csv.reader gives for the same text.
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
  EXPECT_EQ(program.error(),
            "test.csv:4: rank 1: `1Q0`: unknown action `Q`. Known: F, B, I, W, SEND_F, RECV_F, SEND_B, "
            "RECV_B, UNSHARD, RESHARD, REDUCE_GRAD");
}

// Schedule1F1B(...)._get_pipeline_order() of torch 2.11 on 2 ranks with 4 microbatches, as its cells print.
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
      "0F0,0F1,0B0,0B1\n1F1,1B0,1F2,1B2\n",                   // the backwards go another way
      "0F0,0F1,0B0,0B1\n1F0,1B0,1F2,1B1\n",                   // a gap
      "0F1,0F2,0B0,0B1\n1F0,1B0,1F1,1B1\n",                   // not the last rank
      "0F0,0F1,2F1,2B0,2F2,2B1,0B0,0B1\n1F0,1F1,1B0,1B1\n"};  // the last stage, but not alone on its rank
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
    const auto program = parse_pytorch_csv(test::text_of(file), file.filename().string()).and_then(lower);
    ASSERT_TRUE(program) << file << ": " << program.error();
    EXPECT_EQ(to_pytorch_csv(*program).value(), without_blank_cells(test::text_of(comms))) << file.filename();
  }
}

// PyTorch's own unit test of its ZB-1p: merge I and W, then place communication.
TEST(PyTorchCsv, MergingAndLoweringTheZeroBubbleExampleGivesItsComms) {
  const auto folder = test::kReference / "pytorch";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no reference files under " << test::kReference;
  const Program compute = parsed(test::text_of(folder / "zb1p_2rank_2stagep_compute.csv"));
  const auto lowered = lower(merge_backward(compute));
  ASSERT_TRUE(lowered) << lowered.error();
  EXPECT_EQ(to_pytorch_csv(*lowered).value(),
            without_blank_cells(test::text_of(folder / "zb1p_2rank_2stagep_comms.csv")));
}

}  // namespace
}  // namespace penstock
