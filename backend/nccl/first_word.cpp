// All ranks lose what the failing one held at once:
//
//     rank 0   fails --- its connections close --- says why
//     rank 1             loses them ........ waits ........ is stopped
//
// Where two ranks that are both well lose each other, nobody speaks, and the waiting ends by itself.

#include "backend/nccl/first_word.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "backend/cuda/stream.hpp"
#include "backend/executor/transport.hpp"

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kBetweenHearings(1);
constexpr std::chrono::seconds kForOthersToSpeak(5);

}  // namespace

void let_others_speak(const WaitLimits& limits) {
  const auto until = std::chrono::steady_clock::now() +
                     std::min<std::chrono::nanoseconds>(limits.deadline, kForOthersToSpeak);
  while (std::chrono::steady_clock::now() < until) {
    if (limits.stopped && limits.stopped()) throw Stopped{};
    std::this_thread::sleep_for(kBetweenHearings);
  }
}

}  // namespace penstock
