// Whom the watchdog takes for late, from what workers write down while it reads.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include <gtest/gtest.h>

#include "backend/executor/progress.hpp"
#include "backend/executor/watchdog.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/program.hpp"
#include "tests/backend/execution.hpp"

namespace penstock {
namespace {

constexpr std::chrono::seconds kLateAfter(1);
constexpr std::int64_t kMomentOfLook = 60'000'000'000;

/// As RankWorker writes it: the time first.
void note_standing(Progress& progress, std::int32_t position, std::int32_t message, std::int64_t since_ns) {
  progress.since_ns = since_ns;
  progress.position = position;
  progress.waits_for = message;
}

/// Rank 1 has waited for 1RECV_F0 for a minute, which is no fault while rank 0 gets on. Its wait ends while
/// the watchdog looks.
TEST(Watchdog, ARankWhoseLongWaitEndsWhileItLooksIsNotLate) {
  const Program program = read_program(
      "penstock program 1\nschedule one-way\nmicrobatches 1\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0SEND_F0 0RECV_B0 0B0 0STEP\n"
      "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1STEP\n");
  const FlatProgram flat = flatten(program, free_costs(program), {.channels = {}, .iterations = 1});
  const std::int32_t forward = flat.rank_begin[1] + 1;
  std::array<Progress, 2> progress;
  const Watchdog watchdog(flat, progress, kLateAfter);
  note_standing(progress[0], flat.rank_begin[0], kNone, kMomentOfLook);

  std::atomic<int> ready = 0;  // rounds that the watchdog has begun; -1: no more
  std::atomic<int> ended = 0;  // rounds in which the wait has ended
  std::jthread worker([&] {
    for (int round = 1;; ++round) {
      while (ready >= 0 && ready < round) continue;
      if (ready < 0) return;
      note_standing(progress[1], forward, kNone, kMomentOfLook);
      ended = round;
    }
  });
  int taken_for_late = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 1; std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(1000); ++round) {
    note_standing(progress[1], forward, flat.message[static_cast<std::size_t>(forward - 1)], 0);
    ready = round;
    do {
      if (watchdog.overdue(kMomentOfLook)) ++taken_for_late;
    } while (ended < round);
  }
  ready = -1;
  EXPECT_EQ(taken_for_late, 0);
}

}  // namespace
}  // namespace penstock
