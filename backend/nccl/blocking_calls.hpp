#pragma once
// Makes calls of another library that may never return, with a stop and a deadline.

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "backend/cuda/stream.hpp"

namespace penstock {

/// Makes one call after another on its own thread. If a call does not return in time, the thread is
/// abandoned.
class BlockingCalls {
 public:
  BlockingCalls();
  BlockingCalls(const BlockingCalls&) = delete;
  BlockingCalls& operator=(const BlockingCalls&) = delete;
  ~BlockingCalls();

  /// Makes the call. Throws what `call` throws. Throws Stopped, or std::runtime_error after the deadline;
  /// `call` may then still be running, so it must own what it uses. While it runs, later calls are not made
  /// and throw as well.
  void make(std::function<void()> call, const WaitLimits& limits);

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::function<void()> call;  // empty: no call is running
    std::exception_ptr failure;
    bool ends = false;
  };
  /// The body of the thread: waits for calls and makes them, until `ends` is set.
  static void carry_out(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
};

}  // namespace penstock
