// Runs calls that may block forever. The caller waits on a condition variable and regularly checks for a
// stop. The thread that runs the call may outlive the caller, so the two share the ownership of all data.

#include "backend/nccl/blocking_calls.hpp"

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "backend/cuda/stream.hpp"
#include "backend/executor/transport.hpp"

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kBetweenStops(1);

}  // namespace

BlockingCalls::BlockingCalls() : thread_([shared = shared_] { carry_out(shared); }) {}

BlockingCalls::~BlockingCalls() {
  std::unique_lock lock(shared_->mutex);
  shared_->ends = true;
  shared_->changed.notify_all();
  const bool is_left_behind = shared_->call != nullptr;
  lock.unlock();
  is_left_behind ? thread_.detach() : thread_.join();
}

void BlockingCalls::carry_out(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->changed.wait(lock, [&] { return shared->ends || shared->call; });
    // A call that was requested before `ends` was set is still run.
    if (!shared->call) return;
    lock.unlock();
    std::exception_ptr failure;
    try {
      shared->call();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    // This thread also destroys the call's data, because their destructors may block as well.
    shared->call = nullptr;
    shared->failure = failure;
    shared->changed.notify_all();
  }
}

void BlockingCalls::make(std::function<void()> call, const WaitLimits& limits) {
  std::unique_lock lock(shared_->mutex);
  // An earlier call has not returned, so the thread cannot run another one.
  if (shared_->call) throw std::runtime_error("an earlier call has not been answered");
  shared_->call = std::move(call);
  shared_->changed.notify_all();
  const auto until = std::chrono::steady_clock::now() + limits.deadline;
  while (!shared_->changed.wait_for(lock, kBetweenStops, [this] { return !shared_->call; })) {
    if (limits.stopped && limits.stopped()) throw Stopped{};
    if (std::chrono::steady_clock::now() > until) throw std::runtime_error("no answer in time");
  }
  if (const std::exception_ptr failure = std::exchange(shared_->failure, nullptr))
    std::rethrow_exception(failure);
}

}  // namespace penstock
