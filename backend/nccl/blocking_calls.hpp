#pragma once
// Calls of another library that may never return, with a stop and a deadline.

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "backend/cuda/stream.hpp"

namespace penstock {

/// Makes them one after the other by a thread of its own, which is left behind where one does not return in
/// time.
class BlockingCalls {
 public:
  BlockingCalls();
  BlockingCalls(const BlockingCalls&) = delete;
  BlockingCalls& operator=(const BlockingCalls&) = delete;
  ~BlockingCalls();

  /// Throws what `call` throws. Throws Stopped, and std::runtime_error past the deadline, while `call` may
  /// still be under way, so that it must own what it uses; as long as it is, later calls are not made and
  /// throw, too.
  void make(std::function<void()> call, const WaitLimits& limits);

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::function<void()> call;  // empty: none is under way
    std::exception_ptr failure;
    bool ends = false;
  };
  /// What the thread does: waits for calls and makes them, until it is told that there are no more.
  static void carry_out(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
};

}  // namespace penstock
