// Tests the alignment of the clocks of several hosts. The first tests compute clock readings from round
// trips. Others run whole jobs with clocks that have other offsets and run too fast or too slow. The last
// parts test the times that a rank reports, and the clock of a run.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/transport.hpp"
#include "backend/process/clock_alignment.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/socket_transport.hpp"
#include "report/result/result.hpp"
#include "report/result/result_json.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "tests/backend/execution.hpp"
#include "tests/backend/process_fixture.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;

constexpr Ns kSecond = 1'000'000'000;

TEST(ClockAlignment, AnAnswerIsTakenToBeOfTheMiddleOfItsTrip) {
  const ClockReading reading = reading_of({.sent_ns = 100, .there_ns = 5'000, .back_ns = 141});
  EXPECT_EQ(reading.here_ns, 121);
  EXPECT_EQ(reading.there_ns, 5'000);
  EXPECT_EQ(reading.error_ns, 21) << "half of 41, not less";
}

TEST(ClockAlignment, BetweenTwoReadingsAClockGainsEvenly) {
  const AlignedClock clock{.before = {.here_ns = 1'000, .there_ns = 50'000, .error_ns = 3},
                           .after = {.here_ns = 2'000, .there_ns = 51'100, .error_ns = 8}};
  EXPECT_EQ(clock.here(50'000), 1'000);
  EXPECT_EQ(clock.here(50'550), 1'500);
  EXPECT_EQ(clock.here(51'100), 2'000);
  EXPECT_EQ(clock.error_ns(), 8);
}

TEST(ClockAlignment, AHostsClockIsShownAndReadBack) {
  const HostClock own;
  EXPECT_EQ(own.shown_at(123'456'789'012'345), 123'456'789'012'345) << "to the nanosecond";
  const HostClock other{.boot_id = "b", .offset_ns = 7 * kSecond, .rate = 1.001};
  EXPECT_EQ(other.shown_at(1'000), 7 * kSecond + 1'001);
  EXPECT_NEAR(static_cast<double>(other.steady_at(other.shown_at(40'000 * kSecond))), 40'000.0 * kSecond, 2);
}

TEST(ClockAlignment, OnlyTheAnswerToTheOpenQuestionCounts) {
  RankClocks clocks(2);
  EXPECT_FALSE(clocks.some_elsewhere());
  EXPECT_EQ(clocks.error_ns(), std::nullopt);
  clocks.set_elsewhere(1);
  clocks.begin_series();
  clocks.ask(1, 100);
  EXPECT_FALSE(clocks.answered(1, {.sent_ns = 99, .there_ns = 10, .back_ns = 101}));
  EXPECT_FALSE(clocks.answered(1, {.sent_ns = 100, .there_ns = 5'000, .back_ns = 200}));
  EXPECT_FALSE(clocks.answered(1, {.sent_ns = 100, .there_ns = 9'000, .back_ns = 102})) << "a second answer";
  EXPECT_EQ(clocks.error_ns(), 50);
  EXPECT_EQ(clocks.there(1, 150), 5'000);
  EXPECT_EQ(clocks.there(0, 150), 150);
}

/// Sends one clock question to rank 1 and records this answer, which may be false.
void compare_with_liar(RankClocks& clocks, Ns asked_ns, Ns shown_ns) {
  clocks.begin_series();
  clocks.ask(1, asked_ns);
  clocks.answered(1, {.sent_ns = asked_ns, .there_ns = shown_ns, .back_ns = asked_ns + 2});
}

TEST(ClockAlignment, WhateverARankSaysOfItsClockItsTimesStayInOrderAndCanBeCounted) {
  for (const Ns first : {Ns{0}, kSecond, kLastNs - 1, kLastNs}) {
    for (const Ns second : {Ns{0}, Ns{1}, kSecond + 1, kLastNs}) {
      RankClocks clocks(2);
      clocks.set_elsewhere(1);
      compare_with_liar(clocks, kSecond, first);
      clocks.begin_times(2 * kSecond, 1);
      compare_with_liar(clocks, 1'000'000 * kSecond, second);
      std::vector<Ns> times = {0, 1, kSecond, kLastNs / 2, kLastNs};
      clocks.align(1, times);
      EXPECT_THAT(times, testing::Each(testing::AllOf(testing::Ge(0), testing::Le(kLastNs))));
      EXPECT_TRUE(std::ranges::is_sorted(times)) << first << " and then " << second;
    }
  }
}

/// Sends clock questions to all ranks until each has answered often enough. A trip takes up to 100 us, and
/// its two directions take different times.
void compare(RankClocks& clocks, const std::vector<HostClock>& hosts, Ns& now, std::mt19937& random) {
  std::uniform_int_distribution<Ns> way(1'000, 50'000);
  clocks.begin_series();
  for (std::int32_t rank = 1; rank < std::ssize(hosts); ++rank) {
    for (bool done = false; !done;) {
      RoundTrip trip{.sent_ns = now};
      clocks.ask(rank, now);
      now += way(random);
      trip.there_ns = hosts[index(rank)].shown_at(now);
      now += way(random);
      trip.back_ns = now;
      done = clocks.answered(rank, trip);
    }
  }
}

// The error must hold for any times of the two directions of a trip and for any drift of the clocks.
TEST(ClockAlignment, NoTimeIsFurtherOffThanTheErrorThatIsStated) {
  for (std::uint32_t seed = 1; seed <= 500; ++seed) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<Ns> offset(-1'000 * kSecond, 1'000 * kSecond);
    std::uniform_real_distribution<double> drift(-2e-4, 2e-4);
    std::vector<HostClock> hosts(4);
    RankClocks clocks(4);
    for (std::int32_t rank = 1; rank < 4; ++rank) {
      hosts[index(rank)] = {.boot_id = "b", .offset_ns = offset(random), .rate = 1 + drift(random)};
      clocks.set_elsewhere(rank);
    }
    Ns now = 5'000 * kSecond;
    const Ns scale = seed % 3 == 0 ? 4 : 1;
    compare(clocks, hosts, now, random);
    const Ns origin = now;
    clocks.begin_times(origin, static_cast<double>(scale));
    std::vector<Ns> told;  // the start of the times that each rank measures, by the rank's own clock
    for (std::int32_t rank = 0; rank < 4; ++rank) told.push_back(clocks.there(rank, origin));
    compare(clocks, hosts, now, random);
    std::vector<Ns> moments;
    for (int i = 0; i < 20; ++i) {
      now += std::uniform_int_distribution<Ns>(0, kSecond)(random);
      moments.push_back(now);
    }
    compare(clocks, hosts, now, random);
    for (std::int32_t rank = 0; rank < 4; ++rank) {
      std::vector<Ns> times;
      for (const Ns moment : moments)
        times.push_back((hosts[index(rank)].shown_at(moment) - told[index(rank)]) / scale);
      clocks.align(rank, times);
      for (std::size_t i = 0; i < times.size(); ++i)
        ASSERT_LE(std::abs(scale * times[i] - (moments[i] - origin)), *clocks.error_ns() + 2 * scale) << seed;
    }
  }
}

// --- runs --------------------------------------------------------------------------------------------------

constexpr Ns kAction = 4'000'000;

/// Executes a run in which each rank is on its own host. Rank 0 runs in this process and has the clock of
/// this machine.
tl::expected<std::vector<ExecutedRun>, ExecutionError> run_on(const std::vector<HostClock>& hosts,
                                                              const ProcessExecution& execution) {
  const std::uint16_t port = HeldPort().port();
  const auto place = [&](std::int32_t rank) {
    ProcessPlace made = place_of(rank, port);
    made.secret = "a secret of 16 characters";
    made.host = hosts[index(rank)];
    return made;
  };
  std::vector<std::unique_ptr<RankProcess>> others;
  for (std::int32_t rank = 1; rank < std::ssize(hosts); ++rank)
    others.push_back(std::make_unique<RankProcess>(execution, place(rank)));
  auto runs = execute_as_rank(execution, place(0));
  for (const auto& other : others) EXPECT_EQ(other->words(), "ended well");
  return runs;
}

constexpr milliseconds kDeadline(5'000);

/// Executes 1F1B in this way.
tl::expected<std::vector<ExecutedRun>, ExecutionError> run_on(const std::vector<HostClock>& hosts) {
  const FaultyRun run(one_f_one_b_of(static_cast<std::int32_t>(hosts.size())), kAction);
  return run_on(hosts, run.execution(kDeadline));
}

std::vector<Span> spans_of(const Timeline& timeline, std::int32_t rank) {
  std::vector<Span> spans;
  std::ranges::copy_if(timeline.spans, std::back_inserter(spans), [rank](const Span& span) {
    return span.rank == rank && is_compute(span.action.kind) && span.action.kind != ActionKind::step;
  });
  return spans;
}

TEST(ClockAlignment, RanksOfOneHostHaveNoError) {
  const auto runs = run_on({{}, {}});
  ASSERT_TRUE(runs) << runs.error().message;
  EXPECT_EQ(runs->front().clock_error_ns, std::nullopt);
}

// One clock is an hour ahead. The other shows half of what the clock of this machine shows.
TEST(ClockAlignment, RanksWhoseClocksAreFarApartAreMeasuredOnOne) {
  const auto runs = run_on({{},
                            {.boot_id = "ahead", .offset_ns = 3'600 * kSecond},
                            {.boot_id = "behind", .offset_ns = -host_now_ns() / 2}});
  ASSERT_TRUE(runs) << runs.error().message;
  const ExecutedRun& run = runs->front();
  ASSERT_TRUE(run.clock_error_ns);
  EXPECT_GT(*run.clock_error_ns, 0);
  EXPECT_LT(*run.clock_error_ns, 100'000'000);
  EXPECT_LT(run.timeline.makespan_ns, 60 * kSecond);
  for (const Span& later : run.timeline.spans) {
    if (later.action.kind != ActionKind::forward || later.action.stage == 0) continue;
    for (const Span& before : run.timeline.spans) {
      const bool feeds = before.action.kind == ActionKind::forward &&
                         before.action.stage + 1 == later.action.stage &&
                         before.action.microbatch == later.action.microbatch;
      if (feeds) {
        EXPECT_GE(later.start_ns, before.end_ns - *run.clock_error_ns) << to_text(later.action);
      }
    }
  }
}

// If rank 1 blocks for 4 ms by a clock that is a quarter too fast, this takes 3.2 ms.
TEST(ClockAlignment, AClockThatRunsTooFastIsSlowedDown) {
  const auto runs = run_on({{}, {.boot_id = "fast", .offset_ns = kSecond, .rate = 1.25}});
  ASSERT_TRUE(runs) << runs.error().message;
  const auto shortest = [&](std::int32_t rank) {
    return std::ranges::min(spans_of(runs->front().timeline, rank), {},
                            [](const Span& span) { return span.end_ns - span.start_ns; });
  };
  const Span own = shortest(0);
  const Span fast = shortest(1);
  EXPECT_GE(own.end_ns - own.start_ns, kAction);
  EXPECT_GE(fast.end_ns - fast.start_ns, kAction * 3 / 4);
  EXPECT_LT(fast.end_ns - fast.start_ns, kAction * 19 / 20) << "most of its actions are a little late";
}

// A clock that gains 20 ms in each second is aligned again for each run. If it were aligned only once, it
// would be 50 ms ahead in the last run, and messages would arrive after half of their time.
TEST(ClockAlignment, EmulatedLinksTakeTheirTimeInEveryRunThoughAClockDrifts) {
  constexpr Ns kLatency = 100'000'000;
  const FaultyRun run(*generate("1f1b", {.stages = 2, .microbatches = 2}), kAction);
  ProcessExecution execution = run.execution(kDeadline);
  execution.runs = 12;
  execution.pace.latency.assign(execution.flat.messages.size(), kLatency);
  const auto runs = run_on({{}, {.boot_id = "gains", .offset_ns = kSecond, .rate = 1.02}}, execution);
  ASSERT_TRUE(runs) << runs.error().message;
  for (const ExecutedRun& each : *runs) {
    const Ns sent = spans_of(each.timeline, 0).front().end_ns;
    const Ns arrived = spans_of(each.timeline, 1).front().start_ns;
    EXPECT_GE(arrived - sent, kLatency * 2 / 3 - *each.clock_error_ns);
  }
}

TEST(ClockAlignment, TheErrorIsPartOfTheResultAndSaidInItsNotes) {
  const Experiment experiment = uniform_experiment("1f1b", {.stages = 2, .microbatches = 2}, {});
  const OccupyFamily family(experiment, {});
  const Timeline timeline = *critical_path(experiment);
  const auto result =
      measure(experiment, [](const FlatProgram&) { return LinkPace{}; }, {}, family,
              {.engine = "cpu-process",
               .transport = "sockets",
               .channels = {},
               .execute = [&](const PreparedRun& run) {
                 const ExecutedRun executed{.timeline = timeline, .accounts = {}, .clock_error_ns = 41'000};
                 return std::vector<ExecutedRun>(index(run.runs()), executed);
               }});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ((*result)->clock_error_ns, 41'000);
  EXPECT_THAT(
      (*result)->notes,
      testing::Contains("the ranks run on several hosts: their clocks are aligned by round trips before "
                        "and after each run, and times of two ranks are right to 41.000 us"));
  EXPECT_EQ(result_from_json(result_to_json(**result), "r.json")->clock_error_ns, 41'000);
}

// Tests that a rank may report only times that it can have measured, one for each entry of its list.

FlatProgram flat_of_text(const std::string& text) {
  const Program program = read_program(text);
  return flatten(program, free_costs(program), {.channels = {}, .iterations = program.iterations});
}

FlatProgram gpipe_of_two() {
  const Program program = lowered(*generate("gpipe", {.stages = 2, .microbatches = 2}));
  return flatten(program, free_costs(program), {.channels = {}, .iterations = 1});
}

/// Returns times that a rank could have measured: its actions run one after the other and take 10 each.
Done measured_by(const FlatProgram& flat, std::int32_t rank) {
  Done done{.start = {}, .end = {}, .message_start = {}, .message_end = {}, .account = {}};
  const std::int32_t begin = flat.rank_begin[index(rank)];
  for (std::int32_t p = begin; p < flat.rank_begin[index(rank) + 1]; ++p) {
    const bool is_own = flat.message[index(p)] == kNone;
    done.start.push_back(is_own ? 10 * (p - begin) : 0);
    done.end.push_back(is_own ? 10 * (p - begin) + 10 : 0);
  }
  const std::size_t messages = messages_of(flat, rank).size();
  done.message_start.assign(messages, 5);
  done.message_end.assign(messages, 95);  // messages overlap with all actions
  return done;
}

/// Returns the position of an action in the rank's list.
std::size_t place_of_action(const FlatProgram& flat, std::int32_t rank, const std::string& action) {
  const std::int32_t begin = flat.rank_begin[index(rank)];
  std::int32_t p = begin;
  while (to_text(flat.actions[index(p)]) != action) ++p;
  return index(p - begin);
}

TEST(RankTimes, ThoseOfARankThatRanItsListAreTaken) {
  const FlatProgram flat = gpipe_of_two();
  for (const std::int32_t rank : {0, 1})
    EXPECT_EQ(fault_of(flat, rank, measured_by(flat, rank)), std::nullopt) << rank;
  Done at_once = measured_by(flat, 0);
  at_once.start.assign(at_once.start.size(), 7);
  at_once.end = at_once.start;
  EXPECT_EQ(fault_of(flat, 0, at_once), std::nullopt) << "what costs nothing";
}

TEST(RankTimes, AsManyAsItsListHas) {
  const FlatProgram flat = gpipe_of_two();
  const Done right = measured_by(flat, 1);
  for (std::vector<Ns> Done::* times : {&Done::start, &Done::end, &Done::message_start, &Done::message_end}) {
    Done fewer = right;
    (fewer.*times).pop_back();
    EXPECT_EQ(fault_of(flat, 1, fewer), "it sent times of another program");
    Done more = right;
    (more.*times).push_back(0);
    EXPECT_EQ(fault_of(flat, 1, more), "it sent times of another program");
  }
}

TEST(RankTimes, NothingEndsBeforeItStarts) {
  const FlatProgram flat = gpipe_of_two();
  Done action = measured_by(flat, 1);
  action.start.back() = action.end.back() + 1;
  EXPECT_EQ(fault_of(flat, 1, action), "it sent an end that comes before its start");
  Done message = measured_by(flat, 1);
  message.message_start.back() = message.message_end.back() + 1;
  EXPECT_EQ(fault_of(flat, 1, message), "it sent an end that comes before its start");
}

TEST(RankTimes, NothingEndsBeyondWhatAClockShows) {
  const FlatProgram flat = gpipe_of_two();
  Done action = measured_by(flat, 1);
  action.end.back() = kLastNs;
  EXPECT_EQ(fault_of(flat, 1, action), std::nullopt);
  action.end.back() = kLastNs + 1;
  EXPECT_EQ(fault_of(flat, 1, action), "it sent a time of more than 146 years");
  Done message = measured_by(flat, 1);
  message.message_end.front() = kLastNs + 1;
  EXPECT_EQ(fault_of(flat, 1, message), "it sent a time of more than 146 years");
}

TEST(RankTimes, NoActionStartsBeforeTheOneBeforeItEnds) {
  const FlatProgram flat = gpipe_of_two();
  Done done = measured_by(flat, 0);
  done.end[place_of_action(flat, 0, "0F0")] += 1'000;
  EXPECT_EQ(fault_of(flat, 0, done), "it sent times by which 0F1 starts before 0F0 ends");
  done = measured_by(flat, 0);
  done.start[place_of_action(flat, 0, "0STEP")] = done.end[place_of_action(flat, 0, "0B1")] - 1;
  EXPECT_EQ(fault_of(flat, 0, done), "it sent times by which 0STEP starts before 0B1 ends");
}

TEST(RankTimes, AnOverlappedPairIsOneAction) {
  const FlatProgram flat = flat_of_text(
      "penstock program 1\nschedule pair\nmicrobatches 2\nstage 0: rank 0\n"
      "rank 0: 0F0 (0F1;0B0)OVERLAP_F_B 0B1 0STEP\n");
  Done done = measured_by(flat, 0);
  const std::size_t first = place_of_action(flat, 0, "0F1");
  done.start[first + 1] = done.start[first];
  done.end[first] = done.end[first + 1];
  EXPECT_EQ(fault_of(flat, 0, done), std::nullopt);
}

// Tests the clock of a run with scales at which its times overflow 64 bits of nanoseconds.

using std::chrono::steady_clock;

constexpr Ns kOneMillisecond = 1'000'000;
constexpr Ns kBeyondCounting = 10'000'000'000'000'000;  // 115 days

TEST(SteadyClock, MomentsAreAsFarAwayAsTheScaleSays) {
  const steady_clock::time_point start = steady_clock::now();
  EXPECT_EQ(SteadyClock(1, start).moment_of(kOneMillisecond) - start, std::chrono::milliseconds(1));
  EXPECT_EQ(SteadyClock(10, start).moment_of(kOneMillisecond) - start, std::chrono::milliseconds(10));
  EXPECT_GT(SteadyClock(1000, start).moment_of(kBeyondCounting) - start, std::chrono::hours(24 * 365));
}

TEST(SteadyClock, AHoldThatIsTooLongToCountEndsByAStopAlone) {
  std::stop_source stop;
  const std::jthread stopping([&stop] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop.request_stop();
  });
  SteadyClock(1000).hold_for(kBeyondCounting, stop.get_token());
  EXPECT_TRUE(stop.stop_requested());
}

}  // namespace
}  // namespace penstock
