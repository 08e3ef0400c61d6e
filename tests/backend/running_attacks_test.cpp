// Strangers at the ports of a job in the midst of its run, at rank 0's and at those where ranks take their
// peers: they are turned away, and the run goes on.

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/process/control_message.hpp"
#include "backend/process/data_frame.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/socket_loop.hpp"
#include "schedules/ir/digest.hpp"
#include "tests/backend/process_fixture.hpp"
#include "tests/backend/stranger.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Two ends of a pipe, through which processes that are forked later tell each other to go on.
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

/// Three ranks, the middle one of which stands in its third action until it is let go on.
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
  /// Where the rank takes peers.
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
  // A payload for a message that rank 1 waits for, which would be taken as arrived.
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
  // Rank 0's only peer, which has greeted; one that it exchanges nothing with; itself.
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
