#pragma once
// The key-value store (c10d::TCPStore) through which the ranks of a run exchange data before they can use
// NCCL.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "backend/cuda/stream.hpp"

namespace penstock {

/// The address of the key-value store of a run, and the settings for connecting to it.
struct RendezvousPlace {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  std::string prefix{};  ///< prefix of all keys, because other programs may use the store as well
  /// The listening socket of the store, only on the rank that hosts the store. The store takes ownership of
  /// it.
  std::optional<int> socket{};
};

class Rendezvous {
 public:
  /// Connects to the key-value store. If `place` has a socket, it first starts the store on this socket.
  /// Throws Stopped, or std::runtime_error if the store does not answer within the deadline.
  Rendezvous(const RendezvousPlace& place, const WaitLimits& limits);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;
  ~Rendezvous();

  /// Sets the value of a key. If the store has ended, each function of this class waits a few seconds and
  /// then throws std::runtime_error. It throws Stopped instead if the rank that hosted the store reports
  /// its failure in this time.
  void set(const std::string& key, const std::string& value, const WaitLimits& limits = {});
  /// Returns the value of a key, or nothing if the key is not set yet.
  std::optional<std::string> look_up(const std::string& key, const WaitLimits& limits = {});
  /// Waits until the key is set, and returns its value. Throws Stopped, or std::runtime_error after the
  /// deadline. `from_whom` is the name of the awaited rank in the error text.
  std::string get(const std::string& key, const WaitLimits& limits, const std::string& from_whom);

 private:
  struct Store;
  std::unique_ptr<Store> store_;
  RendezvousPlace place_;
};

// Calls functions of other libraries that may never return. The caller stops waiting at a stop or a deadline.

/// A helper thread that makes blocking calls one after another. If a call does not return in time, the
/// thread is abandoned.
class BlockingCalls {
 public:
  BlockingCalls();
  BlockingCalls(const BlockingCalls&) = delete;
  BlockingCalls& operator=(const BlockingCalls&) = delete;
  ~BlockingCalls();

  /// Runs `call` on the helper thread and waits for it. Throws the exceptions of `call`. Throws Stopped after
  /// a stop, or std::runtime_error after the deadline. In these two cases, `call` may still be running, so it
  /// must own all data that it uses. As long as it runs, a later make() throws as well.
  void make(std::function<void()> call, const WaitLimits& limits);

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::function<void()> call;  // requested call; empty if no call is running
    std::exception_ptr failure;
    bool ends = false;
  };
  /// Waits for calls and runs them until `ends` is set. The helper thread executes this function.
  static void carry_out(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
};

}  // namespace penstock
