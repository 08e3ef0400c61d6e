// Strangers at the ports of a job: whatever they send, they are turned away and the job goes on; whatever a
// process sends that knows the secret, nobody crashes.

#include <arpa/inet.h>
#include <poll.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/process/control_message.hpp"
#include "backend/process/job_secret.hpp"
#include "backend/process/message_proof.hpp"
#include "backend/process/socket_loop.hpp"
#include "backend/process/worker.hpp"
#include "schedules/ir/digest.hpp"
#include "tests/backend/process_fixture.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::StartsWith;

/// Somebody who has found the port and knows no secret.
class Stranger {
 public:
  explicit Stranger(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    const auto until = steady_clock::now() + seconds(5);
    for (;;) {
      socket_ = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return;
      close(std::exchange(socket_, -1));
      if (steady_clock::now() > until) throw std::runtime_error("nobody listens");
      std::this_thread::sleep_for(milliseconds(2));
    }
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() { close(socket_); }

  void say(const std::vector<std::uint8_t>& bytes) const {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t more = send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (more <= 0) return;  // it has been turned away
      sent += static_cast<std::size_t>(more);
    }
  }
  /// The other side closes the connection within the time.
  bool is_turned_away(milliseconds within) const {
    return heard_until_the_end(within) != "it was not turned away";
  }
  /// All bytes that come before the other side closes the connection.
  std::string heard_until_the_end(milliseconds within) const {
    const auto until = steady_clock::now() + within;
    std::string heard;
    std::array<char, 4096> bytes{};
    while (steady_clock::now() < until) {
      pollfd ready = {.fd = socket_, .events = POLLIN, .revents = 0};
      poll(&ready, 1, 10);
      if ((ready.revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      const ssize_t got = recv(socket_, bytes.data(), bytes.size(), 0);
      if (got <= 0) return heard;
      heard.append(bytes.data(), static_cast<std::size_t>(got));
    }
    return "it was not turned away";
  }

 private:
  int socket_ = -1;
};

template <typename Number>
void append(std::vector<std::uint8_t>& bytes, Number number) {
  const std::size_t at = bytes.size();
  bytes.resize(at + sizeof(number));
  std::memcpy(bytes.data() + at, &number, sizeof(number));
}

/// "pnstock2", written here once more: a change of the form that no longer turns the old one away is seen.
constexpr std::uint64_t kMagic = 0x32'6b'63'6f'74'73'6e'70;

std::vector<std::uint8_t> opening() {
  std::vector<std::uint8_t> bytes;
  append(bytes, kMagic);
  append(bytes, Nonce{});
  return bytes;
}

/// The right form, and no secret: an opening, and chunks with a proof of zeros.
std::vector<std::uint8_t> forged(const std::vector<std::uint8_t>& message) {
  std::vector<std::uint8_t> bytes = opening();
  append(bytes, static_cast<std::uint32_t>(message.size()));
  append(bytes, std::uint32_t{1});
  bytes.insert(bytes.end(), message.begin(), message.end());
  append(bytes, Proof{});
  return bytes;
}

constexpr const char* kWentAway =
    "rank 1: the start: rank 0 went away while joining: its process ended or closed the connection";

Hello hello_of(std::int32_t rank) {
  return {.rank = rank, .process_id = 1, .digest = "d", .boot_id = boot_id(), .data = {}};
}

/// Three ranks come together while `attack` does what it likes with the port.
void expect_unharmed(const std::function<void(std::uint16_t)>& attack) {
  const FaultyRun run(one_f_one_b_of(3));
  const std::uint16_t port = HeldPort().port();
  RankProcess zero(run, place_of(0, port), seconds(20));
  attack(port);
  RankProcess one(run, place_of(1, port), seconds(20));
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
    old_frame.resize(old_frame.size() + (4 << 20), 0x81);  // lists of one list each, as CBOR writes them
    const Stranger nester(port);
    nester.say(old_frame);
    EXPECT_TRUE(nester.is_turned_away(milliseconds(500)));
    const Stranger forger(port);
    forger.say(forged(std::vector<std::uint8_t>(60'000, 0x81)));
    EXPECT_TRUE(forger.is_turned_away(milliseconds(500)));
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
    EXPECT_TRUE(stranger.is_turned_away(milliseconds(500)));
  });
}

TEST(ProcessAttacks, WhoSpeaksAnotherProtocolIsTurnedAwayAtItsFirstWords) {
  expect_unharmed([](std::uint16_t port) {
    for (const std::string_view words : {"GET / HTTP/1.1\r\n\r\n", "SSH", "\x16\x03\x01"}) {
      const Stranger stranger(port);
      stranger.say({words.begin(), words.end()});
      EXPECT_TRUE(stranger.is_turned_away(milliseconds(1000))) << words;
    }
    std::vector<std::uint8_t> sixteen;
    append(sixteen, std::uint64_t{0x31'6b'63'6f'74'73'6e'70});
    append(sixteen, std::uint64_t{1} << 62);  // the length of what follows, as an earlier form had it
    const Stranger stranger(port);
    stranger.say(sixteen);
    EXPECT_TRUE(stranger.is_turned_away(milliseconds(1000)));
  });
}

TEST(ProcessAttacks, WithoutTheSecretNobodyTakesARank) {
  expect_unharmed([](std::uint16_t port) {
    for (const std::int32_t rank : {0, 1, 2, 7}) {
      const Stranger stranger(port);
      stranger.say(forged(encoded(hello_of(rank))));
      EXPECT_TRUE(stranger.is_turned_away(milliseconds(500)));
    }
  });
}

TEST(ProcessAttacks, WithoutTheSecretNobodyForgesTimes) {
  expect_unharmed([](std::uint16_t port) {
    const Stranger stranger(port);
    stranger.say(forged(encoded(Done{.run = 0,
                                     .start = {1, 2, 3},
                                     .end = {1, 2, 3},
                                     .message_start = {},
                                     .message_end = {},
                                     .account = {}})));
    EXPECT_TRUE(stranger.is_turned_away(milliseconds(500)));
  });
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

constexpr const char* kKnownSecret = "known to both ranks here";

/// What rank 1 ends with where who listens at `port` ends its connection behind these bytes. No secret: the
/// file is looked for.
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
    const std::vector<std::vector<std::uint8_t>> attempts = {
        {'G', 'E', 'T', ' '}, no_chunk, forged({}), forged(encoded(hello_of(1))), forged({1, 2, 3})};
    for (const std::vector<std::uint8_t>& attempt : attempts) {
      const Stranger stranger(port);
      stranger.say(attempt);
      const std::string heard = stranger.heard_until_the_end(seconds(2));
      // An opening, which everybody hears, and the word; in all less than it takes to say anything.
      EXPECT_EQ(heard.size(), opening().size() + 8);
      EXPECT_THAT(heard, testing::EndsWith("refused\n"));
    }
  });
}

TEST(ProcessAttacks, RanksThatNeverProveThemselvesAreCountedInTheMessage) {
  const FaultyRun run(one_f_one_b_of(2));
  const std::uint16_t port = HeldPort().port();
  RankProcess zero(run, place_of(0, port), seconds(20));
  const Stranger stranger(port);
  stranger.say(forged({1, 2, 3}));
  EXPECT_EQ(zero.words(),
            "rank 1: the start: waited 1 s for rank 1 to join; rank 0 waits for it there; turned away 1 "
            "connection without the job's secret: do all ranks have the same user and PENSTOCK_SECRET?");
}

// --- processes that know the secret -----------------------------------------------------------------

/// Joins as rank 1 of two and then says what a rank would not; what rank 0 ends with.
std::string words_of_zero_after(const ControlMessage& said, const std::string& host = boot_id(),
                                milliseconds stays = milliseconds(300)) {
  const FaultyRun run(one_f_one_b_of(2));
  ProcessPlace place = place_of(0, HeldPort().port());
  place.secret = kKnownSecret;
  RankProcess zero(run, place, seconds(20));
  {
    SocketLoop loop({.received = [](ConnectionId, const Frame&) {},
                     .closed = [](ConnectionId, Closing) {},
                     .most_bytes = [](ConnectionId, const Frame&) { return kMostControlBytes; }});
    loop.prove_with(place.secret);
    const auto to = loop.connect(place.coordinator, steady_clock::now() + seconds(5));
    EXPECT_TRUE(to);
    Hello hello = hello_of(1);
    hello.boot_id = host;
    hello.digest = digest(run.execution(seconds(1)).program);
    loop.send(*to, encoded(hello));
    loop.send(*to, encoded(said));
    const auto until = steady_clock::now() + stays;
    while (steady_clock::now() < until) loop.run_until(steady_clock::now() + milliseconds(10));
  }  // and leaves
  return zero.words();
}

TEST(ProcessAttacks, APlaceFarBehindTheProgramsEndFailsTheRunAndNotTheCoordinator) {
  EXPECT_EQ(words_of_zero_after(Report{.position = 2'000'000'000}),
            "rank 1: the start: its process has closed the connection; rank 0 waits for it there");
}

TEST(ProcessAttacks, APlaceInAnotherRanksListIsRefused) {
  EXPECT_EQ(words_of_zero_after(Report{.position = 0}),
            "rank 1: the start: it reported a place of another rank's list; rank 0 waits for it there");
}

TEST(ProcessAttacks, ARankOfAnotherHostThatDoesNotSayItsTimeIsNotWaitedForForEver) {
  EXPECT_EQ(
      words_of_zero_after(ClockAnswer{.sent_ns = 7, .shown_ns = 9}, "another host", milliseconds(1'500)),
      "rank 1: the clock alignment: waited 1 s for rank 1 to say what the clock shows there; rank 0 waits "
      "for it there");
}

// --- where strangers cannot come at all ---------------------------------------------------------------

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
    // The coordinator and two neighbours, as seen by the middle rank.
    throw std::runtime_error(std::to_string(sockets) + " sockets without a name");
  };
  const ExecutionError error = run.with_fault(1, look, 0).error(seconds(20));
  EXPECT_THAT(error.message, StartsWith("rank 1: 1F0: 3 sockets without a name"));
}

// --- the job's secret --------------------------------------------------------------------------------

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

}  // namespace
}  // namespace penstock
