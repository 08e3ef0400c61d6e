#pragma once
// Calls functions of another library that may never return. The caller's wait ends at a stop or a deadline.

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "backend/cuda/stream.hpp"

namespace penstock {

/// A thread that makes calls one after another. If a call does not return in time, the thread is abandoned.
class BlockingCalls {
 public:
  BlockingCalls();
  BlockingCalls(const BlockingCalls&) = delete;
  BlockingCalls& operator=(const BlockingCalls&) = delete;
  ~BlockingCalls();

  /// Runs `call` on the thread and waits for it. Throws what `call` throws. Throws Stopped, or
  /// std::runtime_error after the deadline. `call` may then still be running, so it must own all data that it
  /// uses. While it runs, a later make() throws as well.
  void make(std::function<void()> call, const WaitLimits& limits);

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::function<void()> call;  // requested call; empty if no call is running
    std::exception_ptr failure;
    bool ends = false;
  };
  /// Waits for calls and runs them until `ends` is set. It is the body of the thread.
  static void carry_out(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
};

}  // namespace penstock
