// Tests that a streamed walk has the figures of a stored run, to the nanosecond and the byte, with jumps and
// without. All schedules run with random costs. With small costs, states repeat early; with large costs, they
// do not. The last tests are about the rules of jumps and about live weight versions.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "report/timeline/spans.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/rank_ledger.hpp"
#include "sim/engines/repeat.hpp"
#include "sim/engines/streamed_walk.hpp"
#include "sim/memory/memory.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

/// A source of random numbers that are the same on every machine.
class Draws {
 public:
  explicit Draws(std::uint32_t seed) : random_(seed) {}
  std::int64_t below(std::int64_t bound) { return static_cast<std::int64_t>(random_()) % bound; }
  bool one_in(std::int64_t n) { return below(n) == 0; }

 private:
  std::mt19937 random_;
};

/// Returns random costs up to `most`. Some are 0 if `zeros` is true.
CostTable random_costs(const Program& program, Draws& draws, Ns most, bool zeros, bool buffers) {
  const Ns least = zeros ? 0 : 1;
  CostTable costs = uniform_costs(program, {});
  for (StageCost& cost : costs.stages) {
    cost.forward_ns = least + draws.below(most);
    cost.backward_input_ns = least + draws.below(most);
    cost.backward_weight_ns = least + draws.below(most);
    cost.backward_ns = cost.backward_input_ns + cost.backward_weight_ns;
    cost.step_ns = draws.one_in(2) ? 0 : draws.below(most);
    cost.kept = 3 + draws.below(5);
    cost.released_by_input = draws.below(4);
    cost.weights = 10 + draws.below(3);
    cost.gradients = draws.below(12);
    cost.optimizer_state = draws.below(7);
    cost.transient = draws.below(3);
    cost.recomputed = draws.one_in(2) ? 0 : draws.below(6);
    cost.recomputed_at_once = draws.below(cost.transient + 1);
  }
  for (EdgeCost& edge : costs.edges) {
    if (buffers) edge = {.activation = draws.below(2 * most), .gradient = draws.below(2 * most)};
  }
  return costs;
}

/// Returns the result of a stored run, without the parts that a streamed run does not have.
Result stored(const Experiment& experiment) {
  const auto timeline = critical_path(experiment);
  if (!timeline) throw std::runtime_error(timeline.error().message);
  Result result = summarize(*timeline, {.program = experiment.program,
                                        .costs = experiment.costs,
                                        .memories = memory_of(*timeline, experiment, {.samples = false})});
  for (RankReport& rank : result.ranks) rank.memory.capacity.reset();
  return result;
}

void expect_stored(const StreamedRun& run, const Result& expected) {
  EXPECT_EQ(run.makespan_ns, expected.makespan_ns);
  ASSERT_EQ(run.ranks.size(), expected.ranks.size());
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    SCOPED_TRACE(testing::Message() << "rank " << rank);
    const RankReport& is = run.ranks[rank].report;
    const RankReport& should_be = expected.ranks[rank];
    EXPECT_EQ(is.busy_ns, should_be.busy_ns);
    EXPECT_EQ(is.idle_ns, should_be.idle_ns);
    EXPECT_EQ(is.exposed_communication_ns, should_be.exposed_communication_ns);
    EXPECT_EQ(is.peak_live_activations, should_be.peak_live_activations);
    EXPECT_EQ(is.weight_versions, should_be.weight_versions);
    EXPECT_EQ(is.sent_bytes, should_be.sent_bytes);
    EXPECT_EQ(is.received_bytes, should_be.received_bytes);
    EXPECT_EQ(is.memory.peak_bytes, should_be.memory.peak_bytes);
    EXPECT_EQ(is.memory.peak_time_ns, should_be.memory.peak_time_ns);
    EXPECT_EQ(is.memory.peak_action, should_be.memory.peak_action);
    EXPECT_EQ(is.memory.at_peak, should_be.memory.at_peak);
    EXPECT_EQ(is.memory.peaks, should_be.memory.peaks);
    EXPECT_EQ(is, should_be);
    if (testing::Test::HasFailure()) return;
  }
}

/// Streams a program with jumps and without, and compares both with the stored run. Returns true if the walk
/// has jumped.
bool same_as_stored(const Program& program, const CostTable& costs, Ns latency_ns, ChannelModel model) {
  Experiment experiment = experiment_of(program, costs, uniform_links(program.rank_count(), 1e9, latency_ns));
  experiment.channels.model = model;
  const Result expected = stored(experiment);
  const RolledProgram loops = rolled(program);
  experiment.program = loops.program;
  if (const auto reason = not_streamed(experiment, loops.lists)) {
    EXPECT_EQ(*reason, "weight versions that fall from one microbatch to the next");
    return false;
  }
  const auto walked = stream(experiment, loops.lists, Jumps::left_out);
  const auto jumped = stream(experiment, loops.lists);
  if (!walked || !jumped) {
    ADD_FAILURE() << (walked ? jumped.error() : walked.error());
    return false;
  }
  {
    SCOPED_TRACE("without jumps");
    expect_stored(*walked, expected);
  }
  SCOPED_TRACE(testing::Message() << "jumped over " << jumped->jumped << " of "
                                  << jumped->jumped + jumped->actions << " actions");
  expect_stored(*jumped, expected);
  EXPECT_EQ(walked->actions, jumped->actions + jumped->jumped);
  return jumped->jumped > 0;
}

TEST(Stream, SaysWhatAStoredRunSays) {
  const Program program = *generate("1f1b", {.stages = 4, .microbatches = 64});
  Draws draws(1);
  EXPECT_TRUE(same_as_stored(program, unit_costs(program), 0, ChannelModel::directed));
  EXPECT_TRUE(same_as_stored(program, unit_costs(program), 300'000, ChannelModel::directed));
  same_as_stored(program, random_costs(program, draws, 50, false, true), 7, ChannelModel::directed);
}

TEST(Stream, JumpsOverNearlyAllOfALongPass) {
  const auto loops = generate_loops("1f1b", {.stages = 8, .microbatches = 1'000'000});
  const Experiment experiment{.name = "long",
                              .program = loops->program,
                              .costs = unit_costs(loops->program),
                              .cluster = uniform_links(8, 1e9, 0),
                              .channels = {},
                              .notes = {}};
  const auto run = stream(experiment, loops->lists);
  ASSERT_TRUE(run) << run.error();
  EXPECT_EQ(run->makespan_ns, (1'000'000 + 7) * Ns{3'000'000});  // (M + K - 1)(F + B)
  EXPECT_EQ(run->period_ns, 3'000'000);
  EXPECT_EQ(run->period_microbatches, 1);
  EXPECT_EQ(run->actions + run->jumped, 8 * (2 * 1'000'000 + 1));
  EXPECT_LT(run->actions, 2'000);
}

TEST(Stream, JumpsOverPeriodsOfManyMicrobatches) {
  constexpr std::int32_t kStages = 32;
  const auto loops = generate_loops("1f1b", {.stages = kStages, .microbatches = 16 * kStages});
  const Experiment experiment{.name = "long",
                              .program = loops->program,
                              .costs = unit_costs(loops->program),
                              .cluster = uniform_links(kStages, 1e9, 4'000),
                              .channels = {},
                              .notes = {}};
  const auto run = stream(experiment, loops->lists);
  ASSERT_TRUE(run) << run.error();
  EXPECT_EQ(run->period_microbatches, kStages);
  // The walk jumps over 13 of 16 periods. In one and a half, the pipeline fills and drains, and one period
  // must be walked to be found.
  EXPECT_EQ(run->jumped, 13 * 2 * kStages * kStages);
}

TEST(Stream, RefusesWhatItDoesNotKnow) {
  const auto refusal = [](const Shape& shape, const ChannelOptions& channels) {
    const auto loops = generate_loops("1f1b", shape);
    const Experiment experiment{.name = "refused",
                                .program = loops->program,
                                .costs = unit_costs(loops->program),
                                .cluster = uniform_links(loops->program.rank_count(), 1e9, 0),
                                .channels = channels,
                                .notes = {}};
    return not_streamed(experiment, loops->lists).value_or("streamed");
  };
  const Shape shape{.stages = 2, .microbatches = 4};
  Shape recomputed = shape;
  recomputed.checkpoint = Checkpoint::always;
  Shape repeated = shape;
  repeated.iterations = 2;
  EXPECT_EQ(refusal(shape, {}), "streamed");
  EXPECT_EQ(refusal(shape, {.blocking = Blocking::each}), "blocking channels");
  EXPECT_EQ(refusal(shape, {.capacity = 2}), "channels of a capacity");
  EXPECT_EQ(refusal(shape, {.eager_bytes = 2}), "eager messages");
  EXPECT_EQ(refusal(recomputed, {}), "recomputation");
  EXPECT_EQ(refusal(repeated, {}), "iterations of a pass");
}

// With vertical sync, versions may decrease if replicas process their minibatches out of order.
TEST(Stream, RefusesVersionsThatFall) {
  Program program = *generate("1f1b-rr", {.stages = 1, .microbatches = 8});
  for (Action& action : program.ranks[0]) {
    if (action.microbatch == 5) action.weight_version = 3;
  }
  const RolledProgram loops = rolled(program);
  const Experiment experiment{.name = "falling",
                              .program = loops.program,
                              .costs = unit_costs(program),
                              .cluster = uniform_links(1, 1e9, 0),
                              .channels = {},
                              .notes = {}};
  EXPECT_EQ(not_streamed(experiment, loops.lists),
            "weight versions that fall from one microbatch to the next");
}

TEST(Stream, SaysWhereAnOrderCannotBeExecuted) {
  Program program = *generate("1f1b", {.stages = 2, .microbatches = 2});
  std::swap(program.ranks[0][0], program.ranks[0][2]);  // 0B0 0F1 0F0 ...
  const RolledProgram loops = rolled(program);
  const Experiment experiment{.name = "stuck",
                              .program = loops.program,
                              .costs = unit_costs(program),
                              .cluster = uniform_links(2, 1e9, 0),
                              .channels = {},
                              .notes = {}};
  const auto run = stream(experiment, loops.lists);
  ASSERT_FALSE(run);
  EXPECT_NE(run.error().find("rank 0 at position 0: 0B0 waits for 1B0"), std::string::npos) << run.error();
}

/// Returns a random shape, which the schedule may refuse.
Shape random_shape(const ScheduleInfo& schedule, Draws& draws) {
  const auto stages = static_cast<std::int32_t>(1 + draws.below(8));
  const auto rest = static_cast<std::int32_t>(draws.one_in(3) ? draws.below(7) : 0);
  Shape shape{.stages = stages,
              .microbatches = stages * static_cast<std::int32_t>(1 + draws.below(30)) + rest};
  const auto takes = [&](std::string_view option) { return takes_option(schedule, option); };
  if (takes_chunks(schedule)) shape.virtual_stages = static_cast<std::int32_t>(1 + draws.below(3));
  if (takes("replicas") && draws.one_in(2)) {
    shape.replicas.assign(schedule.name == "data-parallel" ? 1 : static_cast<std::size_t>(stages), 1);
    for (std::int32_t& replicas : shape.replicas) replicas = draws.one_in(3) ? 2 : 1;
    if (takes("routing") && draws.one_in(2)) shape.routing = Routing::global;
  }
  if (takes("weights")) shape.weights = static_cast<WeightPolicy>(draws.below(3));
  if (takes("backward_order") && draws.one_in(2)) shape.backward_order = BackwardOrder::lifo;
  if (takes("update") && draws.one_in(2)) shape.update = UpdateRule::microbatch;
  if (schedule.name == "pipedream-2bw") shape.iterations = 3;
  return shape;
}

TEST(Stream, SaysWhatAStoredRunSaysOfEveryGeneratorOverRandomCosts) {
  std::map<std::string_view, int> streamed;
  int jumped = 0;
  for (std::uint32_t seed = 1; seed <= 1500; ++seed) {
    Draws draws(seed);
    const ScheduleInfo& schedule = schedule_table()[seed % schedule_table().size()];
    const auto program = generate(schedule.name, random_shape(schedule, draws));
    if (!program) continue;
    const Ns most = std::vector<Ns>{1, 2, 5, 30, 1000}[static_cast<std::size_t>(draws.below(5))];
    const CostTable costs = random_costs(*program, draws, most, draws.one_in(4), draws.one_in(2));
    const ChannelModel model = kChannelModels[static_cast<std::size_t>(draws.below(5))];
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << schedule.name
                                    << " K=" << program->rank_count() << " M=" << program->microbatches
                                    << " costs below " << most << ", " << to_text(model));
    jumped += same_as_stored(*program, costs, draws.one_in(2) ? draws.below(2 * most) : 0, model) ? 1 : 0;
    ASSERT_FALSE(HasFailure());
    ++streamed[schedule.name];
  }
  EXPECT_EQ(streamed.size(), schedule_table().size());
  EXPECT_GT(jumped, 300);
}

// The last rank of GPipe is slower than the one before it. So ever more activations wait for it, and no two
// moments are alike.
TEST(Stream, GivesUpALongPassThatDoesNotRepeat) {
  const auto loops = generate_loops("gpipe", {.stages = 2, .microbatches = 1 << 24});
  ASSERT_TRUE(loops);
  CostTable costs = uniform_costs(loops->program, {});
  for (StageCost& cost : costs.stages) {
    cost.forward_ns = 1'000;
    cost.backward_ns = 2'000;
  }
  costs.stages[1].forward_ns = 2'000;
  const Experiment experiment = experiment_of(loops->program, costs, uniform_links(2, 1e9, 0));
  const auto run = stream(experiment, loops->lists);
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error(), testing::StartsWith("their times do not repeat within the first "));
}

// Tests how far a streamed walk jumps. After the jump, only the repetitions may remain that the walk must
// place one by one.

constexpr std::int32_t kRepetitions = 100;
constexpr std::int32_t kPeriod = 4;

/// A walk over one rank with the list kRepetitions x {F0}. Every fourth action takes longer.
class OneRank {
 public:
  bool more_is_held_after_each = false;
  bool ahead = false;

  OneRank() {
    list_.repeat({Action{.kind = ActionKind::forward, .microbatch = 0}}, kRepetitions);
    cursor_ = list_.begin();
  }

  OneRank(const OneRank&) = delete;  // because the cursor points into the list
  OneRank& operator=(const OneRank&) = delete;

  void compute() {
    clock_ns_ += cursor_.inner() % kPeriod == 0 ? 5 : 1;
    held_ += more_is_held_after_each ? 1 : 0;
    ++cursor_;
  }

  static std::int32_t rank_count() { return 1; }
  Ns clock_ns(std::int32_t /*rank*/) const { return clock_ns_; }
  const LoopCursor& cursor(std::int32_t /*rank*/) const { return cursor_; }
  std::int64_t actions() const { return cursor_.inner(); }
  static bool routes_repeat(std::int32_t /*units*/) { return true; }
  bool reads_ahead() const { return ahead; }
  void settle_all() {}
  template <class State>
  void show(State& state) {
    state.same(cursor_.inner() % kPeriod);
    state.held(held_);
    state.time(clock_ns_);
  }

 private:
  ActionLoops list_;
  LoopCursor cursor_;
  Ns clock_ns_ = 0;
  std::int64_t held_ = 0;
};

/// Returns the number of repetitions that remain after the first jump.
std::optional<std::int64_t> left_after_jump(OneRank& walk) {
  RepeatSearch search;
  for (std::int32_t i = 0; i < kRepetitions / 2; ++i) {
    walk.compute();
    if (const auto jump = search.look(walk, {})) {
      EXPECT_EQ(jump->shift.units, kPeriod);
      EXPECT_EQ(jump->shift.time_ns, 5 + kPeriod - 1);
      return kRepetitions - walk.cursor(0).inner() - jump->times * jump->moves[0].inner;
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> left_of_plain() {
  OneRank walk;
  return left_after_jump(walk);
}

TEST(Repeat, LessThanAPeriodIsLeftAndARepetition) {
  const auto left = left_of_plain();
  ASSERT_TRUE(left);
  EXPECT_GT(*left, 1);
  EXPECT_LE(*left, 1 + kPeriod);
}

TEST(Repeat, APeriodMoreIsWalkedWhereMoreIsHeldAfterEach) {
  OneRank walk;
  walk.more_is_held_after_each = true;
  EXPECT_EQ(left_after_jump(walk), *left_of_plain() + kPeriod) << "its peak is the last one's";
}

TEST(Repeat, APeriodMoreIsWalkedWhereListsAreReadAhead) {
  OneRank walk;
  walk.ahead = true;
  EXPECT_EQ(left_after_jump(walk), *left_of_plain() + kPeriod);
}

// Compares LiveVersions, which stores runs of versions with equal counts, with a table that has an entry for
// each version.

TEST(LiveVersions, AreOpenAsOftenAsTheyWentForwardAndNotBack) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    LiveVersions versions;
    // The versions that are not dropped, with their counts.
    std::map<std::int32_t, std::int32_t> open{{0, 0}};
    for (int step = 0; step < 200; ++step) {
      const auto chosen = std::next(open.begin(), static_cast<std::ptrdiff_t>(random() % open.size()));
      const std::int32_t version = chosen->first;
      const auto what = random() % 4;
      if (what == 0) {
        versions.step();
        open[versions.newest()] = 0;
      } else if (what == 1) {
        versions.forward(version);
        ++chosen->second;
      } else if (what == 2 && chosen->second > 0) {
        versions.backward(version);
        --chosen->second;
      } else if (what == 3 && version != versions.newest()) {
        versions.drop(version);
        open.erase(version);
      }
      ASSERT_EQ(versions.newest(), open.rbegin()->first);
      for (const auto& [known, times] : open)
        ASSERT_EQ(versions.is_open(known), times > 0) << "seed " << seed;
    }
  }
}

TEST(LiveVersions, AreAlikeWhereOnlyTheirNumbersHaveMoved) {
  LiveVersions early;
  early.forward(0);
  early.step();
  LiveVersions late;
  for (int i = 0; i < 5; ++i) {
    late.step();
    late.drop(i);
  }
  late.forward(5);
  late.step();
  KeepState kept;
  early.show(kept);
  const KeptState state = std::move(kept).kept();
  CompareState same(state, {});
  late.show(same);
  EXPECT_TRUE(same.alike());
  late.forward(5);
  late.forward(6);
  late.step();
  CompareState other(state, {});
  late.show(other);
  EXPECT_FALSE(other.alike());
}

TEST(LiveVersions, MoveOnWithTheRepetitionsThatAreJumpedOver) {
  LiveVersions versions;
  versions.forward(0);
  versions.step();
  KeepState before;
  versions.show(before);
  const KeptState state = std::move(before).kept();
  versions.backward(0);
  versions.forward(1);
  versions.drop(0);
  versions.step();
  AdvanceState advance(state, {}, 10);
  versions.show(advance);
  EXPECT_EQ(versions.newest(), 12);
  EXPECT_TRUE(versions.is_open(11));
  EXPECT_FALSE(versions.is_open(12));
}

}  // namespace
}  // namespace penstock
