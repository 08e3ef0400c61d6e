// Tests the WAITs of a list. Times and hangs are computed by hand. Other tests are about memory, PyTorch's
// CSV, and lists that are refused. engines_test.cpp compares the engines with the reference on random
// programs with WAITs.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;

Program listed(const std::string& text, int microbatches = 2) {
  const auto program = parse_program(
      "penstock program 1\nschedule custom\nmicrobatches " + std::to_string(microbatches) + "\n" + text,
      "waits.psched");
  EXPECT_TRUE(program) << program.error();
  return *program;
}

constexpr const char* kTwoStages = "stage 0: rank 0\nstage 1: rank 1\n";
constexpr const char* kRankOne = "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1STEP\n";

/// Returns the experiment of the program. F takes 10 and B takes 20. A message occupies its channel for 5 and
/// has a latency of 1.
Experiment experiment(const Program& program) {
  CostTable costs = uniform_costs(program, {.forward_ns = 10, .backward_ns = 20, .gradients = 30});
  for (EdgeCost& edge : costs.edges) edge = {.activation = 5, .gradient = 5};
  return {.name = "waits",
          .program = program,
          .costs = costs,
          .cluster = uniform_links(program.rank_count(), 1e9, 1),
          .channels = {},
          .notes = {}};
}

/// Returns the starts and ends of actions on rank 0, except RECVs and STEPs. Both engines must find the same
/// times.
std::vector<std::string> spans_of_rank_0(const Experiment& experiment) {
  const auto tape = critical_path(experiment);
  const auto events = event_simulation(experiment);
  EXPECT_TRUE(tape && events);
  EXPECT_EQ(*tape, *events);
  std::vector<std::string> spans;
  for (const Span& span : tape->spans) {
    const bool left_out = is_recv(span.action.kind) || span.action.kind == ActionKind::step;
    if (span.rank != 0 || left_out) continue;
    spans.push_back(to_text(span.action) + " " + std::to_string(span.start_ns) + ".." +
                    std::to_string(span.end_ns));
  }
  return spans;
}

// Without the WAIT, F1 starts when F0 has ended. With it, F1 starts when the activation of F0 has arrived.
//
//   rank 0  |F0--------|       |F1--------|          1 character = 1
//   channel            |hold.~|
//                             ^ WAIT_SEND_F0
TEST(Waits, TheRankGoesOnWhenTheMessageHasArrived) {
  const std::string rest = "0B0 0RECV_B1 0B1 0STEP\n";
  const Program plain =
      listed(kTwoStages + std::string("rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 ") + rest + kRankOne);
  EXPECT_THAT(spans_of_rank_0(experiment(plain)),
              testing::ElementsAre("0F0 0..10", "0SEND_F0 10..16", "0F1 10..20", "0SEND_F1 20..26",
                                   "0B0 52..72", "0B1 82..102"));
  const Program waits =
      listed(kTwoStages + std::string("rank 0: 0F0 0SEND_F0 0WAIT_SEND_F0 0F1 0SEND_F1 0RECV_B0 ") + rest +
             kRankOne);
  EXPECT_THAT(spans_of_rank_0(experiment(waits)),
              testing::ElementsAre("0F0 0..10", "0SEND_F0 10..16", "0WAIT_SEND_F0 16..16", "0F1 16..26",
                                   "0SEND_F1 26..32", "0B0 52..72", "0B1 82..102"));
}

// PyTorch places the WAIT after the backward of the microbatch. The message has arrived long before, so the
// WAIT does not change any time.
TEST(Waits, BehindTheBackwardChangeNoTime) {
  const Program program = listed(
      kTwoStages +
      std::string("rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0WAIT_SEND_F0 0RECV_B1 0B1 0WAIT_SEND_F1 "
                  "0STEP\n") +
      kRankOne);
  EXPECT_THAT(
      spans_of_rank_0(experiment(program)),
      testing::ElementsAre("0F0 0..10", "0SEND_F0 10..16", "0F1 10..20", "0SEND_F1 20..26", "0B0 52..72",
                           "0WAIT_SEND_F0 72..72", "0B1 82..102", "0WAIT_SEND_F1 102..102"));
}

// Idle time before an action counts as exposed communication while the message of an earlier WAIT is under
// way.
TEST(Waits, TheirMessagesAreExposed) {
  const Program program = listed(
      kTwoStages +
      std::string("rank 0: 0F0 0SEND_F0 0WAIT_SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP\n") +
      kRankOne);
  const Result result = *simulate(experiment(program), {});
  // 0SEND_F0, 1SEND_B0 and 1SEND_B1 contribute 6 each.
  EXPECT_EQ(result.ranks[0].exposed_communication_ns, 18);
}

// Two replicas reduce the gradients of stage 1 while they compute stage 0. The WAIT is in front of the next
// reduction, where PyTorch places it. The reduction of 30 bytes has 2 steps, each with 15 bytes and a latency
// of 1, so it takes 32.
//
//   rank 0   1B1====|0B0====|0B1====|         0REDUCE_GRAD ...
//   ring            |1REDUCE_GRAD------------|
//                                            ^ 1WAIT_REDUCE_GRAD
TEST(Waits, AReductionRunsBesideTheNextStageAndTheWaitEndsWithIt) {
  const std::string list =
      "0F0 1F0 0F1 1F1 1B0 1B1 1REDUCE_GRAD 0B0 0B1 1WAIT_REDUCE_GRAD 0REDUCE_GRAD 0WAIT_REDUCE_GRAD 0STEP "
      "1STEP\n";
  const std::string other = "1REDUCE_GRAD 1WAIT_REDUCE_GRAD 0REDUCE_GRAD 0WAIT_REDUCE_GRAD 0STEP 1STEP\n";
  Experiment two = experiment(
      listed("stage 0: ranks 0 1 route 0\nstage 1: ranks 0 1 route 0\nrank 0: " + list + "rank 1: " + other));
  two.costs.stages[0].backward_ns = 5;
  const auto reduction = [](int from) { return std::to_string(from) + ".." + std::to_string(from + 32); };
  EXPECT_THAT(spans_of_rank_0(two),
              testing::ElementsAre("0F0 0..10", "1F0 10..20", "0F1 20..30", "1F1 30..40", "1B0 40..60",
                                   "1B1 60..80", "1REDUCE_GRAD " + reduction(80), "0B0 80..85", "0B1 85..90",
                                   "1WAIT_REDUCE_GRAD 112..112", "0REDUCE_GRAD " + reduction(112),
                                   "0WAIT_REDUCE_GRAD 144..144"));
}

// Stage 0 sends to stages 1 and 2, and stage 2 sends to stage 3. Rank 1 runs stages 1 and 3, and all of stage
// 3 first. Each queue has room for one message, so 0SEND_F1 waits for 1F0. In the end, 1F0 needs 0F2, which
// comes after the WAIT.
//
//   0WAIT_SEND_F1 > 0SEND_F1 > 1RECV_F1 > 1F0 > 3F2 > 2SEND_F2 > 2F2 > 0SEND_F2>2 > 0WAIT_SEND_F1
TEST(Waits, AWaitThatNeedsALaterActionOfItsRankHangs) {
  const auto program_of = [](const std::string& wait) {
    return listed(
        "forward_only\nedges 0>1 0>2 2>3\nstage 0: rank 0\nstage 1: rank 1\nstage 2: rank 2\n"
        "stage 3: rank 1\n"
        "rank 0: 0F0 0SEND_F0 0SEND_F0>2 0F1 0SEND_F1 0SEND_F1>2 " +
            wait +
            "0F2 0SEND_F2 0SEND_F2>2\n"
            "rank 1: 1RECV_F0 3RECV_F0 3F0 3RECV_F1 3F1 3RECV_F2 3F2 1F0 1RECV_F1 1F1 1RECV_F2 1F2\n"
            "rank 2: 2RECV_F0<0 2F0 2SEND_F0 2RECV_F1<0 2F1 2SEND_F1 2RECV_F2<0 2F2 2SEND_F2\n",
        3);
  };
  const ChannelOptions channels{.capacity = 1};
  const Program plain = program_of("");
  EXPECT_FALSE(find_hang(plain, channels, unit_costs(plain)));
  const Program waits = program_of("0WAIT_SEND_F1 ");
  ASSERT_TRUE(validate(waits)) << validate(waits).error();
  const auto hang = find_hang(waits, channels, unit_costs(waits));
  ASSERT_TRUE(hang);
  EXPECT_THAT(hang->message, HasSubstr("rank 0, position 6: 0WAIT_SEND_F1 waits for 0SEND_F1"));
  Experiment hangs = experiment(waits);
  hangs.channels = channels;
  EXPECT_FALSE(critical_path(hangs));
  EXPECT_FALSE(event_simulation(hangs));
}

// A send buffer has 5 bytes and is held from the end of F. Without WAITs, the buffer of F0 is released before
// that of F1 is needed. With PyTorch's WAIT after B0, both are held at the same time.
TEST(Waits, ASentTensorIsHeldUntilItsWait) {
  const auto peak_of_send_buffers = [](const std::string& list) {
    Experiment made = experiment(listed(kTwoStages + ("rank 0: " + list) + kRankOne));
    made.costs.stages[0].forward_ns = 30;
    const RankMemory memory = memory_of(*critical_path(made), made, {})[0];
    return memory.peaks[static_cast<std::size_t>(MemoryCategory::send_buffers)];
  };
  EXPECT_EQ(peak_of_send_buffers("0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP\n"), 5);
  EXPECT_EQ(peak_of_send_buffers(
                "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0WAIT_SEND_F0 0RECV_B1 0B1 0WAIT_SEND_F1 0STEP\n"),
            10);
}

// With sharding 2, a rank holds 30 bytes of gradients of a stage until they are reduced, and then half of
// them. The reduction of stage 1 ends while rank 0 recomputes. With the WAIT, its buffer is held longer,
// while B0 fills the buffer of stage 0.
//
//   rank 0   1B1==|0R0~~~~~~~~~~~|0B0==   WAIT
//   stage 1  30   |.32 ns.| 15              without the WAIT; stage 0 adds 30 in B0
TEST(Waits, AReductionHoldsItsBufferUntilItsWait) {
  const auto peak_of_gradients = [](const std::string& wait) {
    Experiment made =
        experiment(listed("sharding 2\nstage 0: ranks 0 1 route 0\nstage 1: ranks 0 1 route 0\n"
                          "rank 0: 0F0 1F0 0F1 1F1 1B0 1B1 1REDUCE_GRAD 0R0 0B0 " +
                          wait + " 0R1 0B1 0REDUCE_GRAD 0STEP 1STEP\nrank 1: 1REDUCE_GRAD " + wait +
                          " 0REDUCE_GRAD 0STEP 1STEP\n"));
    made.costs.stages[0].recompute_ns = 100;
    const RankMemory memory = memory_of(*critical_path(made), made, {})[0];
    return memory.peaks[static_cast<std::size_t>(MemoryCategory::gradients)];
  };
  EXPECT_EQ(peak_of_gradients(""), 15 + 30);
  EXPECT_EQ(peak_of_gradients("1WAIT_REDUCE_GRAD"), 30 + 30);
}

TEST(Waits, ATextAndAFileOfPyTorchReadBackAsThemselves) {
  const std::string csv =
      "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0WAIT_SEND_F0,0RECV_B1,0B1,0WAIT_SEND_F1,"
      "0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD\n"
      "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1WAIT_SEND_B0,1SEND_B1,1REDUCE_GRAD,1RESHARD,"
      "1WAIT_REDUCE_GRAD\n";
  const auto program = parse_pytorch_csv(csv, "nightly.csv", CsvDialect::torch_2_6);
  ASSERT_TRUE(program) << program.error();
  ASSERT_TRUE(validate(*program)) << validate(*program).error();
  EXPECT_EQ(*to_pytorch_csv(*program, CsvDialect::torch_2_6), csv);
  EXPECT_EQ(*parse_program(to_text(*program), "again.psched"), *program);
  EXPECT_TRUE(critical_path(experiment(*program)));
  EXPECT_THAT(to_pytorch_csv(*program, CsvDialect::torch_2_5).error(), HasSubstr("0WAIT_SEND_F0"));
}

// A compute program may have WAITs for SENDs that only lower() adds.
TEST(Waits, LoweringKeepsThem) {
  const Program compute =
      listed(kTwoStages +
             std::string("rank 0: 0F0 0F1 0B0 0WAIT_SEND_F0 0B1 0STEP\nrank 1: 1F0 1B0 1F1 1B1 1STEP\n"));
  ASSERT_TRUE(validate(compute)) << validate(compute).error();
  const Program lowered = *lower(compute);
  ASSERT_TRUE(validate(lowered)) << validate(lowered).error();
  EXPECT_THAT(to_text(lowered), HasSubstr("0B0 0WAIT_SEND_F0"));
  EXPECT_NE(to_text(lowered).find("0SEND_F0"), std::string::npos);
}

TEST(Waits, ThatWaitForNothingAreRefused) {
  const auto fault_of = [](const std::string& list) {
    return validate(listed(kTwoStages + ("rank 0: " + list + "\n") + kRankOne)).error();
  };
  EXPECT_THAT(fault_of("0F0 0WAIT_SEND_F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP"),
              HasSubstr("position 1: 0WAIT_SEND_F0 must come after every 0SEND_F0, for which it waits"));
  EXPECT_THAT(
      fault_of("0F0 0SEND_F0 0WAIT_SEND_F0 0WAIT_SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP"),
      HasSubstr("position 3: 0WAIT_SEND_F0 comes a second time, must come once (before at position 2)"));
  EXPECT_THAT(fault_of("0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0WAIT_SEND_B0 0RECV_B1 0B1 0STEP"),
              HasSubstr("0WAIT_SEND_B0 waits for a SEND_B of stage 0, which sends none to another rank"));
  EXPECT_THAT(
      fault_of("0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0WAIT_REDUCE_GRAD 0STEP"),
      HasSubstr(
          "must come after a 0REDUCE_GRAD for which no other WAIT_REDUCE_GRAD waits, but there is none"));
}

}  // namespace
}  // namespace penstock
