// Tests strangers (processes without the secret) that connect to the ports of a job while its ranks join, or
// during its run. Whatever they send, they are refused and the job continues.

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/executor/executor.hpp"
#include "backend/executor/transport.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/job_secret.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/socket_loop.hpp"
#include "backend/process/socket_transport.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/digest.hpp"
#include "tests/backend/process_fixture.hpp"
#include "tests/backend/stranger.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::StartsWith;

constexpr const char* kWentAway =
    "rank 1: the start: rank 0 went away while joining: its process ended or closed the connection";

/// Runs three ranks. While they join, `attack` may do anything with the port. `master` is the coordinator's
/// address for ranks 0 and 1.
void expect_unharmed(const std::function<void(std::uint16_t)>& attack,
                     const std::string& master = "127.0.0.1") {
  const FaultyRun run(one_f_one_b_of(3));
  const std::uint16_t port = HeldPort().port();
  RankProcess zero(run, {0, {.address = master, .port = port}}, seconds(20));
  attack(port);
  RankProcess one(run, {1, {.address = master, .port = port}}, seconds(20));
  RankProcess two(run, place_of(2, port), seconds(20));
  EXPECT_EQ(zero.words(), "ended well");
  EXPECT_EQ(one.words(), "ended well");
  EXPECT_EQ(two.words(), "ended well");
}

TEST(ProcessAttacks, AFrameOfNestedListsIsTurnedAwayAtOnce) {
  expect_unharmed([](std::uint16_t port) {
    std::vector<std::uint8_t> old_frame;
    append(old_frame, std::uint64_t{0x31'6b'63'6f'74'73'6e'70});
    append(old_frame, std::uint64_t{4 << 20});
    // The bytes are lists that contain one list each, in the form of CBOR.
    old_frame.resize(old_frame.size() + (4 << 20), 0x81);
    const Stranger nester(port);
    nester.say(old_frame);
    EXPECT_TRUE(nester.is_turned_away(seconds(20)));
    const Stranger forger(port);
    forger.say(forged({Frame(60'000, 0x81)}));
    EXPECT_TRUE(forger.is_turned_away(seconds(20)));
  });
}

TEST(ProcessAttacks, SixteenBytesDoNotReserveGigabytes) {
  expect_unharmed([](std::uint16_t port) {
    std::vector<std::uint8_t> huge;
    append(huge, kMagic);
    append(huge, Nonce{});
    append(huge, std::numeric_limits<std::uint32_t>::max());
    append(huge, std::uint32_t{0});
    const Stranger stranger(port);
    stranger.say(huge);
    EXPECT_TRUE(stranger.is_turned_away(seconds(20)));
  });
}

TEST(ProcessAttacks, WhoSpeaksAnotherProtocolIsTurnedAwayAtItsFirstWords) {
  expect_unharmed([](std::uint16_t port) {
    for (const std::string_view words : {"GET / HTTP/1.1\r\n\r\n", "SSH", "\x16\x03\x01"}) {
      const Stranger stranger(port);
      stranger.say(std::vector<std::uint8_t>(words.begin(), words.end()));
      EXPECT_TRUE(stranger.is_turned_away(seconds(20))) << words;
    }
    std::vector<std::uint8_t> sixteen;
    append(sixteen, std::uint64_t{0x31'6b'63'6f'74'73'6e'70});
    append(sixteen, std::uint64_t{1} << 62);  // the length of the message, in the form of an earlier protocol
    const Stranger stranger(port);
    stranger.say(sixteen);
    EXPECT_TRUE(stranger.is_turned_away(seconds(20)));
  });
}

TEST(ProcessAttacks, WithoutTheSecretNobodyTakesARank) {
  expect_unharmed([](std::uint16_t port) {
    for (const std::int32_t rank : {0, 1, 2, 7}) {
      const Stranger stranger(port);
      stranger.say(forged({encoded(hello_of(rank))}));
      EXPECT_TRUE(stranger.is_turned_away(seconds(20)));
    }
  });
}

/// Runs rank 0. Returns a text that says whether the spans of rank 1 are as long as its actions.
std::string words_about_rank_one(const FaultyRun& run, const ProcessPlace& place, Ns action_ns) {
  const auto runs = execute_as_rank(run.execution(seconds(20)), place);
  if (!runs) return runs.error().message;
  for (const Span& span : runs->at(0).timeline.spans) {
    const bool passes = span.action.kind == ActionKind::forward || span.action.kind == ActionKind::backward;
    if (span.rank == 1 && passes && span.end_ns - span.start_ns < action_ns) return "forged times";
  }
  return "its own times";
}

TEST(ProcessAttacks, WithoutTheSecretNobodyForgesTimes) {
  constexpr Ns kHeldNs = 1'000'000;
  const FaultyRun run(one_f_one_b_of(2), kHeldNs);
  const ProcessExecution execution = run.execution(seconds(20));
  const std::uint16_t port = HeldPort().port();
  RankProcess zero([&] { return words_about_rank_one(run, place_of(0, port), kHeldNs); });
  // These are all messages of rank 1, with times of 0. They would be accepted if they had valid proofs.
  const Done times = done_of(execution.flat, 1, 0, empty_times(execution.flat),
                             std::vector<MessageTime>(messages_of(execution.flat, 1).size()));
  ASSERT_EQ(fault_of(execution.flat, 1, times), std::nullopt);
  const Stranger stranger(port);
  stranger.say(forged({encoded(hello_of(1, digest(execution.program))), encoded(Ready{}), encoded(times)}));
  EXPECT_THAT(stranger.heard_until_the_end(seconds(5)), testing::EndsWith("refused\n"));
  RankProcess one(run, place_of(1, port), seconds(20));
  EXPECT_EQ(zero.words(), "its own times");
  EXPECT_EQ(one.words(), "ended well");
}

TEST(ProcessAttacks, AtEveryAddressOfTheHostStrangersAreTurnedAway) {
  expect_unharmed(
      [](std::uint16_t port) {
        for (const char* host : {"127.0.0.1", "127.0.0.2"}) {
          const Stranger stranger(port, host);
          stranger.say(forged({encoded(hello_of(1))}));
          EXPECT_THAT(stranger.heard_until_the_end(seconds(5)), testing::EndsWith("refused\n")) << host;
        }
      },
      "0.0.0.0");
}

TEST(ProcessAttacks, StrangersThatSayNothingDoNotKeepRanksOut) {
  std::vector<std::unique_ptr<Stranger>> silent;
  expect_unharmed([&](std::uint16_t port) {
    for (int i = 0; i < 300; ++i) silent.push_back(std::make_unique<Stranger>(port));
  });
}

TEST(ProcessAttacks, ARankWithAnotherSecretIsToldSoAndTheJobGoesOn) {
  expect_unharmed([](std::uint16_t port) {
    const FaultyRun run(one_f_one_b_of(3));
    ProcessPlace wrong = place_of(1, port);
    wrong.secret = "the secret of another job";
    const Stranger waits_until_it_listens(port);
    RankProcess other(run, wrong, seconds(20));
    EXPECT_EQ(other.words(),
              "rank 1: the start: rank 0 turned this process away: do all ranks have the same user and "
              "PENSTOCK_SECRET?");
  });
}

/// Returns how rank 1 ends if the process that listens at `port` sends these bytes and closes the connection.
/// If `secret` is empty, rank 1 looks for the secret file.
std::string words_of_one_cut_off_at(const HeldPort& port, const std::string& secret = kKnownSecret,
                                    const std::vector<std::uint8_t>& said = {}) {
  const FaultyRun run(one_f_one_b_of(2));
  ProcessPlace place = place_of(1, port.port());
  place.secret = secret;
  RankProcess one(run, place, seconds(20));
  port.end_next(said);
  return one.words();
}

TEST(ProcessAttacks, ACoordinatorThatEndsBeforeItSaysAnythingIsNotSaidToTurnARankAway) {
  EXPECT_EQ(words_of_one_cut_off_at(HeldPort()), kWentAway);
}

TEST(ProcessAttacks, ACoordinatorThatEndsBehindItsOpeningIsNotSaidToTurnARankAway) {
  EXPECT_EQ(words_of_one_cut_off_at(HeldPort(), kKnownSecret, opening()), kWentAway);
}

TEST(ProcessAttacks, ACoordinatorThatEndsBeforeItsSecretIsReadIsNotSaidToHaveLeftNone) {
  EXPECT_EQ(words_of_one_cut_off_at(HeldPort(), ""), kWentAway);
}

TEST(ProcessAttacks, WhoListensInRankZerosPlaceIsNotTakenForOneThatRefuses) {
  const HeldPort listener;
  EXPECT_EQ(words_of_one_cut_off_at(listener, kKnownSecret, {'S', 'S', 'H', '-', '2', '.', '0', '\n'}),
            "rank 1: the start: who listens on 127.0.0.1:" + std::to_string(listener.port()) +
                " is not rank 0 of this job: do all ranks have the same MASTER_ADDR and MASTER_PORT?");
}

TEST(ProcessAttacks, AStrangerIsToldTheSameWhateverItHasSaid) {
  expect_unharmed([](std::uint16_t port) {
    std::vector<std::uint8_t> no_chunk = opening();
    append(no_chunk, std::numeric_limits<std::uint64_t>::max());
    const std::vector<std::vector<std::uint8_t>> attempts = {{'G', 'E', 'T', ' '},
                                                             no_chunk,
                                                             forged({Frame{}}),
                                                             forged({encoded(hello_of(1))}),
                                                             forged({{1, 2, 3}})};
    for (const std::vector<std::uint8_t>& attempt : attempts) {
      const Stranger stranger(port);
      stranger.say(attempt);
      const std::string heard = stranger.heard_until_the_end(seconds(2));
      // The listener sends an opening and the text "refused" with a line end. A stranger learns nothing else.
      EXPECT_EQ(heard.size(), opening().size() + 8);
      EXPECT_THAT(heard, testing::EndsWith("refused\n"));
    }
  });
}

TEST(ProcessAttacks, RanksThatNeverProveThemselvesAreCountedInTheMessage) {
  const FaultyRun run(one_f_one_b_of(2));
  const std::uint16_t port = HeldPort().port();
  RankProcess zero(run, place_of(0, port), seconds(20), seconds(3));
  const Stranger stranger(port);
  stranger.say(forged({{1, 2, 3}}));
  EXPECT_EQ(zero.words(),
            "rank 1: the start: waited 3 s for rank 1 to join; rank 0 waits for it there; turned away 1 "
            "connection without the job's secret: do all ranks have the same user and PENSTOCK_SECRET?");
}

// --- connections that strangers cannot reach ----------------------------------------------------------

TEST(ProcessAttacks, ForkedRanksHaveNoSocketThatAnybodyCouldReach) {
  FaultyRun run(one_f_one_b_of(3));
  const auto look = [] {
    int sockets = 0;
    for (int file = 0; file < 256; ++file) {
      int domain = 0;
      socklen_t size = sizeof(domain);
      if (getsockopt(file, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0) continue;
      sockaddr_storage name{};
      socklen_t length = sizeof(name);
      getsockname(file, reinterpret_cast<sockaddr*>(&name), &length);
      if (domain != AF_UNIX || length > sizeof(sa_family_t)) throw std::runtime_error("a socket with a name");
      ++sockets;
    }
    // The middle rank has sockets to the coordinator and to two neighbours.
    throw std::runtime_error(std::to_string(sockets) + " sockets without a name");
  };
  const ExecutionError error = run.with_fault(1, look, 0).error(seconds(20));
  EXPECT_THAT(error.message, StartsWith("rank 1: 1F0: 3 sockets without a name"));
}

// --- the secret of the job ----------------------------------------------------------------------------

TEST(JobSecret, RankZeroThatIsEndedWhileItWaitsLeavesNoFile) {
  const FaultyRun run(one_f_one_b_of(2));
  const std::uint16_t port = HeldPort().port();
  const pid_t zero = fork();
  if (zero == 0) {
    ProcessExecution execution = run.execution(seconds(20));
    execution.patience = seconds(20);
    static_cast<void>(execute_as_rank(execution, place_of(0, port)));
    _exit(0);
  }
  {
    const Stranger waits_until_it_listens(port);
  }
  EXPECT_TRUE(std::filesystem::exists(secret_path(port)));
  kill(zero, SIGTERM);
  int status = 0;
  waitpid(zero, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_FALSE(std::filesystem::exists(secret_path(port)));
}

// Tests strangers that connect during the run, to the port of rank 0 and to the ports on which ranks accept
// their peers. They are refused, and the run continues.

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A pipe through which processes that are forked later can wake each other.
class Signal {
 public:
  Signal() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  ~Signal() {
    for (const int end : ends_) ::close(end);
  }
  void give() const { EXPECT_EQ(::write(ends_[1], "!", 1), 1); }
  void await() const {
    char given = 0;
    EXPECT_EQ(::read(ends_[0], &given, 1), 1);
  }

 private:
  std::array<int, 2> ends_{};
};

/// A run of three ranks. The middle rank waits in its third action until the test lets it continue.
class RunUnderAttack {
 public:
  RunUnderAttack() : port_(HeldPort().port()) {
    run_.with_fault(
        1,
        [this] {
          in_its_midst_.give();
          goes_on_.await();
        },
        2);
    for (const std::int32_t rank : {0, 1, 2})
      ranks_.push_back(std::make_unique<RankProcess>(run_, secret_place_of(rank, port_), seconds(20)));
    in_its_midst_.await();
  }

  std::uint16_t port() const { return port_; }
  /// Returns the port on which the rank accepts connections of other ranks.
  std::uint16_t data_port_of(std::size_t rank) const {
    const auto port = listening_port_but(ranks_[rank]->process(), port_);
    if (!port) throw std::runtime_error("it does not listen");
    return *port;
  }
  std::string program_digest() const { return digest(run_.execution(seconds(1)).program); }

  void expect_unharmed() {
    goes_on_.give();
    for (const auto& rank : ranks_) EXPECT_EQ(rank->words(), "ended well");
  }

 private:
  Signal in_its_midst_;
  Signal goes_on_;
  FaultyRun run_{one_f_one_b_of(3)};
  std::uint16_t port_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
};

TEST(RunningAttacks, AStrangerAtRankZerosPortIsTurnedAway) {
  RunUnderAttack run;
  const Done done{.start = {}, .end = {}, .message_start = {}, .message_end = {}, .account = {}};
  for (const std::int32_t rank : {0, 1, 2, 7}) {
    const Stranger stranger(run.port());
    stranger.say(forged({encoded(hello_of(rank, run.program_digest())),
                         encoded(Report{.position = std::numeric_limits<std::int32_t>::max()}), encoded(done),
                         encoded(Failed{.standing = {}, .what = "a lie"})}));
    EXPECT_THAT(stranger.heard_until_the_end(seconds(5)), testing::EndsWith("refused\n")) << rank;
  }
  run.expect_unharmed();
}

TEST(RunningAttacks, AStrangerAtThePortForPeersIsTurnedAway) {
  RunUnderAttack run;
  // This is a payload of a message for which rank 1 waits. If it were accepted, the message would count as
  // arrived.
  const Frame arrival = packed({.run = 0, .message = 0, .from_rank = 0}, {});
  for (const std::size_t rank : {0U, 1U, 2U}) {
    for (const std::int32_t as : {0, 1, 2}) {
      const Stranger stranger(run.data_port_of(rank));
      stranger.say(forged({encoded(Greeting{as}), arrival}));
      EXPECT_THAT(stranger.heard_until_the_end(seconds(5)), testing::EndsWith("refused\n")) << rank;
    }
  }
  run.expect_unharmed();
}

TEST(RunningAttacks, WithTheSecretNobodyTakesAPeersPlaceEither) {
  RunUnderAttack run;
  // 1 is rank 0's only peer, which is already connected. Rank 0 exchanges no messages with 2. 0 is the rank
  // itself.
  for (const std::int32_t as : {1, 2, 0}) {
    Insider insider(run.data_port_of(0));
    insider.say(encoded(Greeting{as}));
    EXPECT_TRUE(insider.is_turned_away(seconds(5))) << as;
  }
  Insider silent_about_itself(run.data_port_of(0));
  silent_about_itself.say(packed({.run = 0, .message = 1, .from_rank = 1}, {}));
  EXPECT_TRUE(silent_about_itself.is_turned_away(seconds(5)));
  run.expect_unharmed();
}

}  // namespace
}  // namespace penstock
