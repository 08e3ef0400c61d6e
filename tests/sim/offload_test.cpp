// Tests OFFLOAD and RELOAD. Times, memory, exposed time and causes are computed by hand. Other tests check
// which lists are refused, and the pass of `schedule.offload`. engines_test.cpp compares the engines with the
// reference on random programs.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_boxes.hpp"
#include "report/why/explanation.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/why/explain.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Program offloading(const std::string& lists, int microbatches = 2) {
  const auto program = parse_program(
      "penstock program 1\nschedule custom\nmicrobatches " + std::to_string(microbatches) + "\n" + lists,
      "offload.psched");
  EXPECT_TRUE(program) << program.error();
  return *program;
}

/// Returns the experiment of the program. F takes 10 and B takes 20, and a microbatch stores 8 bytes. Copying
/// them takes 8, plus a latency of 2.
Experiment copied(const Program& program, bool duplex = true) {
  CostTable costs = uniform_costs(program, {.forward_ns = 10,
                                            .backward_ns = 20,
                                            .backward_input_ns = 10,
                                            .backward_weight_ns = 10,
                                            .kept = 8,
                                            .released_by_input = 3});
  costs.host = {.bytes_per_second = 1e9, .latency_ns = 2, .duplex = duplex};
  for (EdgeCost& edge : costs.edges) edge = {.activation = 40, .gradient = 5};
  return {.name = "offload",
          .program = program,
          .costs = costs,
          .cluster = uniform_links(program.rank_count(), 1e9, 0),
          .channels = {},
          .notes = {}};
}

/// Returns the starts and ends of actions on rank 0, except RECVs and STEPs. Both engines must find the same
/// times.
std::vector<std::string> copies_and_computes(const Experiment& experiment) {
  const auto tape = critical_path(experiment);
  const auto events = event_simulation(experiment);
  EXPECT_TRUE(tape && events);
  EXPECT_EQ(*tape, *events);
  std::vector<std::string> spans;
  for (const Span& span : tape->spans) {
    if (span.rank != 0 || is_recv(span.action.kind) || span.action.kind == ActionKind::step) continue;
    spans.push_back(to_text(span.action) + " " + std::to_string(span.start_ns) + ".." +
                    std::to_string(span.end_ns));
  }
  return spans;
}

constexpr const char* kOneStage = "stage 0: rank 0\n";

// Both copies run beside the actions of the rank, and B0 does not wait.
//
//   rank 0  |F0--------|F1--------|B1==================|B0==================|     1 character = 1
//   to host            |O0--------|
//   back               :          |R0--------|          R0 is listed in front of B1
TEST(Offload, CopiesRunBesideTheActionsOfTheRank) {
  const Program program =
      offloading(kOneStage + std::string("rank 0: 0F0 0OFFLOAD0 0F1 0RELOAD0 0B1 0B0 0STEP\n"));
  EXPECT_THAT(copies_and_computes(copied(program)),
              ElementsAre("0F0 0..10", "0OFFLOAD0 10..20", "0F1 10..20", "0RELOAD0 20..30", "0B1 20..40",
                          "0B0 40..60"));
}

// A RELOAD waits for its OFFLOAD, and B0 for the RELOAD.
//
//   rank 0  |F0--------|                    |B0==================|
//   copies             |O0--------|R0--------|
TEST(Offload, TheBackwardWaitsForTheReload) {
  const Program program =
      offloading(kOneStage + std::string("rank 0: 0F0 0OFFLOAD0 0RELOAD0 0B0 0F1 0B1 0STEP\n"));
  EXPECT_THAT(copies_and_computes(copied(program)),
              ElementsAre("0F0 0..10", "0OFFLOAD0 10..20", "0RELOAD0 20..30", "0B0 30..50", "0F1 50..60",
                          "0B1 60..80"));
  const Result result = *simulate(copied(program), {});
  EXPECT_EQ(result.ranks[0].exposed_communication_ns, 20 - 10);  // B0 does not wait for the OFFLOAD
}

// Copies in one direction run one after the other. With half duplex, all copies of the rank run one after the
// other.
TEST(Offload, EachDirectionHasItsOwnQueueUnlessItIsHalfDuplex) {
  const Program program =
      offloading(kOneStage + std::string("rank 0: 0F0 0OFFLOAD0 0F1 0RELOAD0 0OFFLOAD1 0RELOAD1 "
                                         "0B0 0B1 0STEP\n"));
  EXPECT_THAT(copies_and_computes(copied(program)),
              ElementsAre("0F0 0..10", "0OFFLOAD0 10..20", "0F1 10..20", "0RELOAD0 20..30",
                          "0OFFLOAD1 20..30", "0RELOAD1 30..40", "0B0 30..50", "0B1 50..70"));
  EXPECT_THAT(copies_and_computes(copied(program, false)),
              ElementsAre("0F0 0..10", "0OFFLOAD0 10..20", "0F1 10..20", "0RELOAD0 20..30",
                          "0OFFLOAD1 30..40", "0RELOAD1 40..50", "0B0 30..50", "0B1 50..70"));
}

// The activation is on the device from 0 to 20, and again from the start of the RELOAD at 40.
TEST(Offload, TheActivationIsOffTheDeviceBetweenTheCopies) {
  const Program program =
      offloading(kOneStage + std::string("rank 0: 0F0 0OFFLOAD0 0F1 0B1 0RELOAD0 0F2 0B2 0B0 0STEP\n"), 3);
  const Experiment offloads = copied(program);
  const Result result = *simulate(offloads, {});
  const auto category = static_cast<std::size_t>(MemoryCategory::activations);
  std::vector<std::string> held;
  for (const MemorySample& sample : result.ranks[0].memory.samples)
    held.push_back(std::to_string(sample.time_ns) + ": " + std::to_string(sample.bytes[category]));
  EXPECT_THAT(held, ElementsAre("0: 8", "10: 16", "20: 8", "40: 16", "70: 8", "90: 0"));
  EXPECT_EQ(result.ranks[0].peak_live_activations, 2);
}

// The OFFLOAD ends at 20, and the SEND of the same activation at 50. F1 keeps its activation from 10 to 145.
// The RELOAD starts when B1 has ended.
TEST(Offload, TheActivationIsHeldUntilItsSendHasEnded) {
  const Program program = offloading(
      "stage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0SEND_F0 0OFFLOAD0 0F1 0SEND_F1 0RECV_B1 0B1 0RELOAD0 0RECV_B0 0B0 0STEP\n"
      "rank 1: 1RECV_F0 1F0 1RECV_F1 1F1 1B1 1SEND_B1 1B0 1SEND_B0 1STEP\n");
  const Result result = *simulate(copied(program), {});
  const auto category = static_cast<std::size_t>(MemoryCategory::activations);
  std::vector<std::string> changes;
  Bytes before = 0;
  for (const MemorySample& sample : result.ranks[0].memory.samples) {
    const Bytes now = sample.bytes[category];
    if (now != before) changes.push_back(std::to_string(sample.time_ns) + ": " + std::to_string(now));
    before = now;
  }
  EXPECT_THAT(changes, ElementsAre("0: 8", "10: 16", "50: 8", "175: 0"));
}

// If the backward pass is split into I and W, I waits for the RELOAD. I releases its part of the activation,
// and W releases the rest.
TEST(Offload, ISharesTheReloadWithW) {
  const Program program =
      offloading(kOneStage + std::string("rank 0: 0F0 0OFFLOAD0 0RELOAD0 0I0 0W0 0STEP\n"), 1);
  EXPECT_THAT(copies_and_computes(copied(program)),
              ElementsAre("0F0 0..10", "0OFFLOAD0 10..20", "0RELOAD0 20..30", "0I0 30..40", "0W0 40..50"));
  const Result result = *simulate(copied(program), {});
  const auto category = static_cast<std::size_t>(MemoryCategory::activations);
  std::vector<Bytes> held;
  for (const MemorySample& sample : result.ranks[0].memory.samples) held.push_back(sample.bytes[category]);
  EXPECT_THAT(held, ElementsAre(8, 8, 5, 0));
}

TEST(Offload, ExplainNamesTheIdleTimeThatAReloadCauses) {
  const Program program =
      offloading(kOneStage + std::string("rank 0: 0F0 0OFFLOAD0 0RELOAD0 0B0 0STEP\n"), 1);
  const Explanation why = explained(*caused_run(copied(program)));
  EXPECT_EQ(why.rank_idle[0].causes[static_cast<std::size_t>(IdleCause::offload)], 20);
  ASSERT_EQ(why.intervals.size(), 1U);
  EXPECT_THAT(why.intervals[0].chain, ElementsAre(ChainLink{10, 20, ChainKind::offload, 0, "0OFFLOAD0"},
                                                  ChainLink{20, 30, ChainKind::offload, 0, "0RELOAD0"}));
}

// One character means 10. The picture marks the RELOAD from 20 to 30, but not the OFFLOAD before it.
TEST(Offload, ThePictureMarksTheIdleTimeOfAReload) {
  const Program program =
      offloading(kOneStage + std::string("rank 0: 0F0 0OFFLOAD0 0RELOAD0 0B0 0STEP\n"), 1);
  const std::string picture = timeline_to_text(*critical_path(copied(program)));
  EXPECT_THAT(picture, HasSubstr("< idle while activations are reloaded"));
  EXPECT_THAT(picture, HasSubstr("F0-...<<<B0==="));
}

TEST(Offload, IsTheSameInText) {
  const Program program =
      offloading(kOneStage + std::string("rank 0: 0F0 0OFFLOAD0 0F1 0RELOAD0 0B1 0B0 0STEP\n"));
  EXPECT_EQ(*parse_program(to_text(program), "again.psched"), program);
}

// --- what a list may not say -----------------------------------------------------------------------------

std::string list_fault(const std::string& list, int microbatches = 1) {
  const auto valid = validate(offloading(kOneStage + std::string("rank 0: ") + list + "\n", microbatches));
  return valid ? "" : valid.error().substr(0, valid.error().find('\n'));
}

TEST(Offload, WrongListsAreRefusedWithAReason) {
  EXPECT_EQ(list_fault("0F0 0OFFLOAD0 0RELOAD0 0B0 0STEP"), "");
  EXPECT_EQ(
      list_fault("0F0 0RELOAD0 0B0 0STEP"),
      "rank 0, position 1: 0RELOAD0 must come after 0OFFLOAD0, but there is none before it; add 0OFFLOAD0, "
      "or delete the RELOAD");
  EXPECT_EQ(
      list_fault("0F0 0OFFLOAD0 0OFFLOAD0 0RELOAD0 0B0 0STEP"),
      "rank 0, position 2: 0OFFLOAD0 comes a second time, must come once (before at position 1); delete "
      "one");
  EXPECT_EQ(
      list_fault("0OFFLOAD0 0F0 0RELOAD0 0B0 0STEP"),
      "rank 0, position 0: 0OFFLOAD0 must come after 0F0 (position 1), which makes the activation; move it "
      "behind it");
  EXPECT_EQ(list_fault("0F0 0OFFLOAD0 0B0 0STEP"),
            "rank 0, position 1: 0OFFLOAD0 is not followed by 0RELOAD0, but 0B0 (position 2) needs the "
            "activation; put 0RELOAD0 between the two");
  EXPECT_EQ(
      list_fault("0F0 0OFFLOAD0 0B0 0RELOAD0 0STEP"),
      "rank 0, position 3: 0RELOAD0 must come before 0B0 (position 2), which needs the activation from the "
      "host; move it there");
  EXPECT_EQ(
      list_fault("0F0 0B0 0OFFLOAD0 0RELOAD0 0STEP"),
      "rank 0, position 2: 0OFFLOAD0 must come before 0B0 (position 1), which uses the activation; move it "
      "there");
  EXPECT_THAT(list_fault("0F0 0OFFLOAD0 0R0 0RELOAD0 0B0 0STEP"),
              HasSubstr("0OFFLOAD0 moves what F keeps, but 0R0 (position 2) computes it again"));
  EXPECT_THAT(list_fault("0F0 0OFFLOAD1 0RELOAD1 0B0 0STEP"),
              HasSubstr("names microbatch 1, must be 0 to 0"));
}

// --- schedule.offload ------------------------------------------------------------------------------------

std::string list_text(const Program& program, std::size_t rank) {
  std::string text;
  for (const Action& action : program.ranks[rank]) text += (text.empty() ? "" : " ") + to_text(action);
  return text;
}

TEST(OffloadPass, ReloadsOneComputeActionAheadOfTheBackward) {
  const Program program = *generate("1f1b", {.stages = 3, .microbatches = 4, .offload = {1}});
  EXPECT_EQ(
      list_text(program, 0),
      "0F0 0OFFLOAD0 0F1 0RELOAD0 0OFFLOAD1 0F2 0OFFLOAD2 0B0 0RELOAD1 0F3 0RELOAD2 0OFFLOAD3 0B1 0RELOAD3 "
      "0B2 0B3 0STEP");
  // On the last rank, no action is between F and B, so nothing could hide the copies.
  EXPECT_EQ(list_text(program, 2), "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3 2STEP");
  EXPECT_TRUE(validate(program));
}

TEST(OffloadPass, SpreadsAShareEvenly) {
  const auto offloaded = [](double share, std::size_t rank) {
    std::vector<std::int32_t> microbatches;
    const Program program = *generate("1f1b", {.stages = 4, .microbatches = 8, .offload = {share}});
    for (const Action& action : program.ranks[rank]) {
      if (action.kind == ActionKind::offload) microbatches.push_back(action.microbatch);
    }
    return microbatches;
  };
  EXPECT_THAT(offloaded(0.5, 0), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(offloaded(0.25, 0), ElementsAre(3, 7));
  EXPECT_THAT(offloaded(0, 0), ElementsAre());
}

TEST(OffloadPass, GoesByRank) {
  const Program program = *generate("1f1b", {.stages = 4, .microbatches = 8, .offload = {1, 0, 1, 0}});
  EXPECT_THAT(list_text(program, 0), HasSubstr("OFFLOAD"));
  EXPECT_THAT(list_text(program, 1), testing::Not(HasSubstr("OFFLOAD")));
}

TEST(OffloadPass, LowersThePeakOfTheFirstRanks) {
  for (const char* schedule : {"1f1b", "interleaved"}) {
    Shape shape{.stages = 4, .microbatches = 8};
    if (std::string(schedule) == "interleaved") shape.virtual_stages = 2;
    const auto peak = [&](const Shape& of) {
      Experiment offloads = copied(*lower(*generate(schedule, of)));
      for (EdgeCost& edge : offloads.costs.edges) edge = {.activation = 1, .gradient = 1};
      return simulate(offloads, {})->ranks[0].peak_live_activations;
    };
    const std::int64_t whole = peak(shape);
    shape.offload = {1};
    EXPECT_LT(peak(shape), whole) << schedule;
  }
}

TEST(OffloadPass, RefusesWhatLeavesNothingToOffload) {
  const auto fault = [](const char* schedule, const Shape& shape) {
    return generate(schedule, shape).error();
  };
  EXPECT_THAT(fault("gpipe", {.stages = 2, .microbatches = 2, .offload = {0.5}}),
              HasSubstr("offload: gpipe does not take it"));
  EXPECT_EQ(fault("1f1b", {.stages = 2, .microbatches = 2, .offload = {1.5}}),
            "offload: expected none, or a share from 0 to 1, got 1.5");
  EXPECT_EQ(fault("1f1b", {.stages = 2, .microbatches = 2, .offload = {1, 1, 1}}),
            "offload: expected one share or 2, one a rank, got 3 numbers");
  EXPECT_EQ(fault("1f1b", {.stages = 2, .microbatches = 2, .replicas = {2, 1}, .offload = {1, 1}}),
            "offload: expected one share for all ranks beside `replicas`, got a list");
  EXPECT_THAT(
      fault("1f1b", {.stages = 2, .microbatches = 2, .checkpoint = Checkpoint::always, .offload = {1}}),
      HasSubstr("keeps only its stage's input"));
  EXPECT_THAT(fault("1f1b", {.stages = 2, .microbatches = 2, .passes = Passes::forward, .offload = {1}}),
              HasSubstr("keeps no activations"));
}

}  // namespace
}  // namespace penstock
