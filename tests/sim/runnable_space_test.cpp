// What cannot run under the scenario's channels, or refuses one of its options, is left out of a search and
// named; the others' answer is that of a space without it.

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/check/user_error.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/left_out.hpp"
#include "sim/tuning/tune.hpp"
#include "tests/sim/tune_request.hpp"

namespace penstock {
namespace {

/// Four stages under channels that hold two messages, which zb-v needs more of for as many microbatches, and
/// 1f1b does not.
TuneRequest narrow_request(std::vector<std::string> schedules) {
  TuneRequest request = tune_request(kTunedLlama, 64);
  request.choices.micro_batch_size = {1};
  request.base.channels.capacity = 2;
  request.schedules = std::move(schedules);
  request.choices.stages = {4};
  request.choices.sharding = {0};
  return request;
}

TEST(Tuning, AScheduleThatHangsIsLeftOutAndNamed) {
  const TuneRequest request = narrow_request({"zb-v", "1f1b"});
  for (const bool prune : {true, false}) {
    const auto report = tune(request, {.prune = prune});
    ASSERT_TRUE(report) << report.error().message;
    ASSERT_EQ(report->left_out.size(), 1U);
    const LeftOut& left_out = report->left_out.front();
    EXPECT_EQ(left_out.schedule, "zb-v");
    EXPECT_TRUE(left_out.hangs);
    EXPECT_THAT(left_out.reason, testing::EndsWith(" microbatches hangs under these channels"));
    EXPECT_EQ(report->evaluated + report->pruned_by_memory + report->pruned_by_time + left_out.configurations,
              report->space);
    for (const TunedConfiguration& tuned : report->candidates) {
      EXPECT_EQ(tuned.configuration.schedule, "1f1b");
      EXPECT_EQ(tuned.step_ns, simulated_configuration(request, tuned.configuration).makespan_ns);
    }
  }
}

/// The same answer as without the schedule.
TEST(Tuning, WhatIsLeftOutChangesNothingForTheOthers) {
  const auto with = tune(narrow_request({"zb-v", "1f1b"}), {});
  const auto without = tune(narrow_request({"1f1b"}), {});
  ASSERT_TRUE(with) << with.error().message;
  ASSERT_TRUE(without) << without.error().message;
  EXPECT_TRUE(without->left_out.empty());
  EXPECT_EQ(with->candidates.front().configuration, without->candidates.front().configuration);
  EXPECT_EQ(with->candidates.front().step_ns, without->candidates.front().step_ns);
}

TEST(Tuning, AScheduleThatRefusesAnOptionIsLeftOut) {
  TuneRequest request = tune_request(kTunedLlama, 16);
  request.base.shape.group_size = 4;
  request.schedules = {"1f1b", "interleaved"};
  request.choices.stages = {1, 2};
  const auto report = tune(request, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->candidates.front().configuration.schedule, "interleaved");
  ASSERT_EQ(report->left_out.size(), 1U);
  EXPECT_EQ(report->left_out.front().schedule, "1f1b");
  EXPECT_FALSE(report->left_out.front().hangs);
  EXPECT_THAT(report->left_out.front().reason, testing::StartsWith("group_size: 1f1b does not take it"));
}

/// Outlines have fewer microbatches, of which a rule may want more.
TEST(Tuning, AProgramWhoseOutlineIsRefusedIsOutlinedWhole) {
  TuneRequest request = tune_request(kTunedLlama, 24);
  request.base.shape.group_size = 6;
  request.schedules = {"interleaved"};
  request.choices.stages = {4};
  request.choices.data = {1};
  request.choices.micro_batch_size = {1};
  const auto report = tune(request, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->left_out.empty());
}

TEST(Tuning, WhereNothingCanRunTheErrorSaysWhy) {
  const auto hanging = tune(narrow_request({"zb-v"}), {});
  ASSERT_FALSE(hanging);
  EXPECT_EQ(hanging.error().kind, ErrorKind::check_failed);
  EXPECT_THAT(hanging.error().message, testing::HasSubstr(" of zb-v: zb-v with 4 stages and "));
  TuneRequest refusing = tune_request(kTunedLlama, 16);
  refusing.base.shape.group_size = 4;
  refusing.schedules = {"1f1b"};
  const auto refused = tune(refusing, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("group_size: 1f1b does not take it"));
}

}  // namespace
}  // namespace penstock
