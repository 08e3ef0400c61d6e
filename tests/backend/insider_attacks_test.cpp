// Tests messages that a process of the job, which knows the secret, may send. No message may crash another
// process or lead to an impossible result. The run must end with an error that names the sender.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/transport.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/process_run.hpp"
#include "backend/process/socket_loop.hpp"
#include "backend/process/socket_transport.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/backend/execution.hpp"
#include "tests/backend/process_fixture.hpp"
#include "tests/backend/stranger.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::StartsWith;

constexpr const char* kItWasClosed =
    "rank 1: the start: its process has closed the connection; rank 0 waits for it there";

ProcessPlace secret_place_of(std::int32_t rank, std::uint16_t port) {
  ProcessPlace place = place_of(rank, port);
  place.secret = kKnownSecret;
  return place;
}

/// The time for which rank 0 waits for a message of rank 1.
constexpr seconds kPatience(3);

/// Joins as rank 1 of two, and then sends a message that no rank would send. Returns the error of rank 0.
std::string words_of_zero_after(const ControlMessage& said, const std::string& host = boot_id(),
                                milliseconds stays = milliseconds(300)) {
  const FaultyRun run(one_f_one_b_of(2));
  const ProcessPlace place = secret_place_of(0, HeldPort().port());
  RankProcess zero(run, place, seconds(20), kPatience);
  {
    SocketLoop loop({.received = [](ConnectionId, const Frame&) {},
                     .closed = [](ConnectionId, Closing) {},
                     .most_bytes = [](ConnectionId, const Frame&) { return kMostControlBytes; }});
    loop.prove_with(place.secret);
    const auto to = loop.connect(place.coordinator, steady_clock::now() + seconds(5));
    EXPECT_TRUE(to);
    Hello hello = hello_of(1, digest(run.execution(seconds(1)).program));
    hello.boot_id = host;
    loop.send(*to, encoded(hello));
    loop.send(*to, encoded(said));
    const auto until = steady_clock::now() + stays;
    while (steady_clock::now() < until) loop.run_until(steady_clock::now() + milliseconds(10));
  }  // the connection closes here
  return zero.words();
}

TEST(InsiderAttacks, APlaceFarBehindTheProgramsEndFailsTheRunAndNotTheCoordinator) {
  // The process stays connected for longer than rank 0 would wait for it. So the message itself must end the
  // connection.
  EXPECT_EQ(words_of_zero_after(Report{.position = 2'000'000'000}, boot_id(), kPatience + seconds(1)),
            "rank 1: the start: its process has closed the connection; rank 0 waits for it there");
}

TEST(InsiderAttacks, APlaceInAnotherRanksListIsRefused) {
  EXPECT_EQ(words_of_zero_after(Report{.position = 0}),
            "rank 1: the start: it reported a place of another rank's list; rank 0 waits for it there");
}

TEST(InsiderAttacks, ARankOfAnotherHostThatDoesNotSayItsTimeIsNotWaitedForForEver) {
  EXPECT_EQ(
      words_of_zero_after(ClockAnswer{.sent_ns = 7, .shown_ns = 9}, "another host", kPatience + seconds(1)),
      "rank 1: the clock alignment: waited 3 s for rank 1 to say what the clock shows there; rank 0 waits "
      "for it there");
}

// --- frames that do not end ---------------------------------------------------------------------------

/// Joins as rank 1 of two, sends a chunk that is not the last one of its frame, and then sends nothing.
/// Returns the error of rank 0.
std::string words_of_zero_after_chunk(const Frame& chunk) {
  const FaultyRun run(one_f_one_b_of(2));
  const std::uint16_t port = HeldPort().port();
  // Rank 0 waits for the rest of the frame as long as rank 1 may send nothing.
  RankProcess zero(run, secret_place_of(0, port), seconds(2));
  Insider one(port);
  one.say(encoded(hello_of(1, digest(run.execution(seconds(1)).program))));
  one.say(chunk, false);
  return zero.words();
}

/// Returns the first chunk of a longer frame.
Frame begun_like(const ControlMessage& message) {
  Frame chunk = encoded(message);
  chunk.resize(kChunkBytes);
  return chunk;
}

TEST(InsiderAttacks, AMessageThatIsLongerThanItsKindMayBeEndsTheConnection) {
  EXPECT_EQ(words_of_zero_after_chunk(begun_like(Report{})), kItWasClosed);
}

TEST(InsiderAttacks, AMessageInSmallChunksEndsTheConnection) {
  EXPECT_EQ(words_of_zero_after_chunk({1, 2, 3}), kItWasClosed);
}

TEST(InsiderAttacks, APeersFrameThatIsLongerThanAnyPayloadEndsTheConnection) {
  const FaultyRun run(one_f_one_b_of(2));
  const std::uint16_t port = HeldPort().port();
  ProcessExecution patient = run.execution(seconds(30));
  patient.patience = seconds(30);
  ASSERT_EQ(patient.codec, nullptr) << "so that a frame is no more than its header";
  RankProcess zero(patient, secret_place_of(0, port));
  Insider coming(port);  // at this moment rank 0 listens, and its own worker connects a little later
  std::optional<std::uint16_t> data_port;
  for (const auto until = steady_clock::now() + seconds(5); !data_port && steady_clock::now() < until;)
    data_port = listening_port_but(zero.process(), port);
  ASSERT_TRUE(data_port);
  Insider peer(*data_port);
  peer.say(encoded(Greeting{1}));
  Frame chunk = packed({.run = 0, .message = 0, .from_rank = 1}, {});
  chunk.resize(kChunkBytes);
  peer.say(chunk, false);
  EXPECT_TRUE(peer.is_turned_away(seconds(5)));
}

// --- times that no rank can have measured ---------------------------------------------------------------

/// A function that returns the time that a rank reports for an action. `number` counts the rank's actions.
using Lie = std::function<MessageTime(std::int32_t number, const MessageTime& measured)>;

/// The compute queue of a rank. It reports false times for its actions.
class LyingQueue : public ComputeQueue {
 public:
  LyingQueue(const Clock& clock, Lie lie) : clock_(clock), lie_(std::move(lie)) {}

  std::int64_t most_launches() const override { return 1'000; }
  std::int64_t launches() const override { return 0; }
  LaunchCounts& counts() override { return counts_; }
  void begin(std::int32_t) override { times_.push_back({.start_ns = clock_.now_ns()}); }
  void end(std::int32_t number) override { times_[index(number)].end_ns = clock_.now_ns(); }
  bool has_begun(std::int32_t) const override { return true; }
  bool has_ended(std::int32_t) const override { return true; }
  MessageTime time_of(std::int32_t number) const override { return lie_(number, times_[index(number)]); }

 private:
  const Clock& clock_;
  LaunchCounts counts_;
  Lie lie_;
  std::vector<MessageTime> times_;
};

/// The false values that a rank reports at the end of its run.
struct Lies {
  Lie of_actions = [](std::int32_t, const MessageTime& measured) { return measured; };
  std::function<void(std::vector<MessageTime>&)> of_messages = [](std::vector<MessageTime>&) {};
};

RankTransport lying_transport(const ProcessExecution& execution, const RankRun& run, const Lies& lies) {
  auto sockets = std::make_unique<SocketTransport>(SocketTransportParts{.flat = execution.flat,
                                                                        .pace = execution.pace,
                                                                        .clock = run.clock,
                                                                        .codec = nullptr,
                                                                        .rank = 1,
                                                                        .run = run.run,
                                                                        .send = run.send});
  SocketTransport& transport = *sockets;
  return {.queue = std::make_unique<LyingQueue>(run.clock, lies.of_actions),
          .transport = std::move(sockets),
          .own_times =
              [&transport, &lies] {
                std::vector<MessageTime> times = transport.own_times();
                lies.of_messages(times);
                return times;
              },
          .receive = [&transport](std::int32_t peer, const Frame& frame) { transport.receive(peer, frame); }};
}

/// Returns the answer of rank 0 of two: that it has a result, or the error.
std::string words_of_zero_beside(const Lies& lies) {
  const Experiment experiment = uniform_experiment("1f1b", {.stages = 2, .microbatches = 2},
                                                   {.forward_ns = 1'000'000, .backward_ns = 1'000'000});
  const std::uint16_t port = HeldPort().port();
  RankProcess zero([&]() -> std::string {
    try {
      const auto result =
          run_on_processes(experiment, free_links, {.warmup = 0, .repeats = 1, .deadline = seconds(20)},
                           OccupyFamily(experiment, {}), secret_place_of(0, port));
      if (result) return "a result";
      return (result.error().kind == ErrorKind::run_failed ? "failed: " : "bad: ") + result.error().message;
    } catch (const std::exception& error) {
      return std::string("a fault of Penstock: ") + error.what();
    }
  });
  RankProcess one([&]() -> std::string {
    const FlatProgram flat = flat_of(experiment);
    const OccupyFamily family(experiment, {});
    ProcessExecution execution{
        .program = experiment.program, .flat = flat, .modules = [&](std::int32_t rank, const Clock& clock) {
          return family.modules(rank, clock);
        }};
    execution.transport = [&](std::int32_t, const std::function<bool()>&) {
      return [&](const RankRun& run) { return lying_transport(execution, run, lies); };
    };
    static_cast<void>(execute_as_rank(execution, secret_place_of(1, port)));
    return "";
  });
  return zero.words();
}

TEST(InsiderAttacks, TimesAsTheyWereMeasuredMakeAResult) { EXPECT_EQ(words_of_zero_beside({}), "a result"); }

/// Matches an error of rank 1 with rank 0 as the peer. Rank 0 has sent it something, or still waits for it by
/// its last report.
testing::Matcher<std::string> is_failure_of_rank_one(const std::string& what) {
  return StartsWith("failed: rank 1: the end of its list: " + what + "; rank 0 ");
}

TEST(InsiderAttacks, TimesOfMoreActionsThanThereIsTimeForAreTheirRanksFailure) {
  const Lies lies{.of_actions = [](std::int32_t, const MessageTime& measured) {
    return MessageTime{.start_ns = 0, .end_ns = measured.end_ns};
  }};
  EXPECT_THAT(words_of_zero_beside(lies),
              is_failure_of_rank_one("it sent times by which 1B0 starts before 1F0 ends"));
}

// Two processors of a device may read its timer with a difference of one tick.
TEST(InsiderAttacks, ATickBetweenTwoReadingsOfATimerIsNoLie) {
  const Lies ticks{.of_actions = [last = Ns{0}](std::int32_t number, const MessageTime& measured) mutable {
    const Ns start_ns = number == 0 ? measured.start_ns : std::min(measured.start_ns, last - 500);
    last = measured.end_ns;
    return MessageTime{.start_ns = start_ns, .end_ns = measured.end_ns};
  }};
  EXPECT_EQ(words_of_zero_beside(ticks), "a result");
}

TEST(InsiderAttacks, TimesThatNoClockShowsAreTheirRanksFailure) {
  const Lies lies{.of_actions = [](std::int32_t number, const MessageTime& measured) {
    return number < 4 ? measured : MessageTime{.start_ns = 0, .end_ns = std::numeric_limits<Ns>::max()};
  }};
  EXPECT_THAT(words_of_zero_beside(lies), is_failure_of_rank_one("it sent a time of more than 146 years"));
}

TEST(InsiderAttacks, AnEndBeforeItsStartIsItsRanksFailure) {
  const Lies lies{
      .of_messages = [](std::vector<MessageTime>& times) { times[0].end_ns = times[0].start_ns - 1; }};
  EXPECT_THAT(words_of_zero_beside(lies),
              is_failure_of_rank_one("it sent an end that comes before its start"));
}

/// Runs two ranks that exchange no messages. Rank 1 behaves like a normal rank until it receives End, and
/// then sends `last_word`. Returns how rank 0 ends.
std::string words_of_zero_when_told_at_the_end(const std::optional<ControlMessage>& last_word) {
  Shape shape{.stages = 1, .microbatches = 4};
  shape.replicas = {2};
  shape.replica_sync = ReplicaSync::off;
  const FaultyRun run(*generate("data-parallel", shape));
  const ProcessExecution execution = run.execution(seconds(20));
  const ProcessPlace place = secret_place_of(0, HeldPort().port());
  RankProcess zero(execution, place);
  const ProgramSizes sizes(execution.flat);
  bool hangs_up = false;
  SocketLoop* own = nullptr;
  const auto answer = [&](ConnectionId zero_there, const ControlMessage& heard) {
    const auto say = [&](const ControlMessage& word) { own->send(zero_there, encoded(word)); };
    if (const auto* prepare = std::get_if<Prepare>(&heard)) say(Ready{.run = prepare->run});
    if (const auto* go = std::get_if<Go>(&heard))
      say(done_of(execution.flat, 1, go->run, empty_times(execution.flat), {}));
    if (!std::holds_alternative<End>(heard)) return;
    if (last_word) say(*last_word);
    hangs_up = true;
  };
  SocketLoop loop({.received =
                       [&](ConnectionId from, const Frame& frame) {
                         if (const auto heard = decoded(frame, sizes)) answer(from, *heard);
                       },
                   .closed = [](ConnectionId, Closing) {},
                   .most_bytes = [](ConnectionId, const Frame&) { return kMostControlBytes; }});
  own = &loop;
  loop.prove_with(place.secret);
  const auto to = loop.connect(place.coordinator, steady_clock::now() + seconds(5));
  EXPECT_TRUE(to);
  Hello hello = hello_of(1, digest(execution.program));
  hello.boot_id = boot_id();
  loop.send(*to, encoded(hello));
  const auto until = steady_clock::now() + seconds(10);
  while (!hangs_up && steady_clock::now() < until) {
    loop.send(*to, encoded(Report{}));  // shows rank 0 that this process is alive
    loop.run_until(steady_clock::now() + milliseconds(10));
  }
  loop.run_until(steady_clock::now() + milliseconds(10));
  loop.close(*to);
  return zero.words();
}

// Rank 0 may have been suspended until all ranks had ended. A rank that did not wait for it reports this.
TEST(InsiderAttacks, WhoFailsBeforeItHearsTheEndFailsTheRun) {
  EXPECT_EQ(words_of_zero_when_told_at_the_end(std::nullopt), "ended well");
  const Failed failed{.standing = {}, .what = "the coordinator gave no sign of life for 1 s"};
  EXPECT_THAT(words_of_zero_when_told_at_the_end(failed),
              testing::MatchesRegex("rank 1: .*: the coordinator gave no sign of life for 1 s.*"));
}

TEST(InsiderAttacks, TimesOfAnotherProgramAreTheirRanksFailure) {
  const Lies lies{.of_messages = [](std::vector<MessageTime>& times) { times.pop_back(); }};
  EXPECT_THAT(words_of_zero_beside(lies), is_failure_of_rank_one("it sent times of another program"));
}

}  // namespace
}  // namespace penstock
