// Tests that docs/design/semantics.md is sufficient to compute the times of a program. The engine in
// independent_engine.cpp was written from that page alone. If it and the engines disagree, the page is wrong
// or incomplete, or an engine is wrong. engines_test.cpp compares the engines with the usual reference.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/sim/independent_engine.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

/// Returns the first action whose times differ in the two timelines, or an empty text.
std::string first_deviation(const std::vector<Span>& page, const std::vector<Span>& engine) {
  const auto times = [](const Span& span) {
    return "rank " + std::to_string(span.rank) + " " + to_text(span.action) + " " +
           std::to_string(span.start_ns) + ".." + std::to_string(span.end_ns);
  };
  for (std::size_t i = 0; i < std::min(page.size(), engine.size()); ++i) {
    const auto key = [](const Span& span) {
      return std::tuple(span.rank, span.action, span.replica, span.start_ns, span.end_ns);
    };
    if (key(page[i]) != key(engine[i]))
      return "the page says " + times(page[i]) + ", the engine " + times(engine[i]);
  }
  return page.size() == engine.size() ? "" : "different numbers of actions";
}

/// Compares the engines with the independent engine. Returns false if the program hangs, which the check and
/// the independent engine must both find.
bool agrees_with_the_page(const Experiment& experiment) {
  const ChannelOptions& channels = experiment.channels;
  SCOPED_TRACE(testing::Message() << to_text(channels.model) << blocking_suffix(channels.blocking)
                                  << " capacity " << channels.capacity << " eager " << channels.eager_bytes
                                  << " launch " << experiment.costs.launch.overhead_ns << " ahead "
                                  << experiment.costs.launch.most_ahead << "\n"
                                  << to_text(experiment.program));
  const auto page = times_by_the_page(experiment);
  const bool hangs = find_hang(experiment.program, channels, experiment.costs).has_value();
  EXPECT_EQ(!times_by_the_page(experiment, true), hangs);
  EXPECT_TRUE(page || hangs);
  if (hangs || !page) return false;
  const auto fast = critical_path(experiment);
  EXPECT_TRUE(fast);
  EXPECT_EQ(fast ? first_deviation(*page, fast->spans) : "", "");
  if (links_are_shared(experiment)) return true;
  const auto events = event_simulation(experiment);
  EXPECT_TRUE(events);
  EXPECT_EQ(events ? first_deviation(*page, events->spans) : "", "");
  return true;
}

/// Compares 300 random programs after a change by `change`. Some of them may hang after the change.
template <class Make, class Change>
void compare_programs(Make make, Change change) {
  int ran = 0;
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Experiment experiment = make(seed);
    change(experiment, seed);
    ran += agrees_with_the_page(experiment) ? 1 : 0;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(ran, 150);
}

// This tests rule 8: rank 0 lists its SEND after an action that waits for it.
TEST(SemanticsPage, RefusesASendBehindAnActionThatWaitsForIt) {
  const auto program = parse_program(
      "penstock program 1\nschedule custom\nmicrobatches 1\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0RECV_B0 0B0 0SEND_F0\n"
      "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0\n",
      "custom.psched");
  ASSERT_TRUE(program) << program.error();
  const Experiment experiment{.name = "custom",
                              .program = *program,
                              .costs = unit_costs(*program),
                              .cluster = uniform_links(2, kUnlimitedBandwidth, 0),
                              .channels = {},
                              .notes = {}};
  const auto times = times_by_the_page(experiment);
  ASSERT_TRUE(times);
  EXPECT_EQ(times->back().start_ns, 4'000'000);  // 1SEND_B0 comes after 0F0, 1F0 and 1B0
  EXPECT_FALSE(times_by_the_page(experiment, true));
  EXPECT_TRUE(find_hang(experiment.program, experiment.channels, experiment.costs));
}

TEST(SemanticsPage, GivesTheTimesOfRandomPrograms) {
  compare_programs(random_experiment, [](Experiment&, std::uint32_t) {});
}

TEST(SemanticsPage, GivesTheTimesOfProgramsThatRunIterationsWithBarriers) {
  compare_programs(random_experiment, [](Experiment& experiment, std::uint32_t) {
    experiment.program.iterations = 3;
    experiment.program.barrier = true;
  });
}

TEST(SemanticsPage, GivesTheTimesOfShardedStages) {
  compare_programs(random_experiment, [](Experiment& experiment, std::uint32_t seed) {
    experiment.program.sharding = 1 + static_cast<std::int32_t>(seed % 3);
  });
}

TEST(SemanticsPage, GivesTheTimesOfBatchedTransfers) {
  compare_programs(random_experiment, [](Experiment& experiment, std::uint32_t) {
    experiment.channels.blocking = Blocking::batched;
  });
}

TEST(SemanticsPage, GivesTheTimesOfStatedGroups) {
  compare_programs(random_experiment, [](Experiment& experiment, std::uint32_t seed) {
    group_some(experiment.program, seed);
    if (seed % 2 == 0) wait_at_no(experiment.program, seed);
  });
}

TEST(SemanticsPage, GivesTheTimesOfWaits) {
  compare_programs(random_experiment, [](Experiment& experiment, std::uint32_t seed) {
    if (seed % 3 == 0) group_some(experiment.program, seed);
    add_waits(experiment.program, seed);
  });
}

TEST(SemanticsPage, GivesTheTimesOfCopiesToHosts) {
  compare_programs(random_experiment, [](Experiment& experiment, std::uint32_t seed) {
    if (seed % 3 == 0) group_some(experiment.program, seed);
    if (seed % 4 == 0) experiment.costs.launch.overhead_ns = seed % 7;
    if (seed % 5 == 0) experiment.channels.blocking = Blocking::batched;
    offload_some(experiment, seed);
  });
}

TEST(SemanticsPage, GivesTheTimesOfStagesAndEdgesOfOneFlow) {
  compare_programs(random_one_way_experiment, [](Experiment&, std::uint32_t) {});
}

TEST(SemanticsPage, GivesTheTimesOfHostsThatTakeTimeToLaunch) {
  compare_programs(random_experiment, [](Experiment& experiment, std::uint32_t seed) {
    if (seed % 3 == 0) group_some(experiment.program, seed);
    experiment.costs.launch = {.overhead_ns = seed % 7, .most_ahead = static_cast<std::int32_t>(seed % 4)};
  });
}

}  // namespace
}  // namespace penstock
