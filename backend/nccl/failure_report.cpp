// Lets the rank that has failed report the cause. When a rank fails, all others lose their connections to it
// at once:
//
//     rank 0   fails --- its connections close --- reports why
//     rank 1             loses them ........ waits ........ is stopped
//
// If two healthy ranks lose the connection between them, no rank reports a failure, and the wait ends after
// some seconds.

#include "backend/nccl/failure_report.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "backend/cuda/stream.hpp"
#include "backend/executor/transport.hpp"

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kBetweenChecks(1);
constexpr std::chrono::seconds kForReport(5);

}  // namespace

void wait_for_failure_report(const WaitLimits& limits) {
  const auto until =
      std::chrono::steady_clock::now() + std::min<std::chrono::nanoseconds>(limits.deadline, kForReport);
  while (std::chrono::steady_clock::now() < until) {
    if (limits.stopped && limits.stopped()) throw Stopped{};
    std::this_thread::sleep_for(kBetweenChecks);
  }
}

}  // namespace penstock
