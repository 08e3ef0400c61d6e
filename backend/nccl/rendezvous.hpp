#pragma once
// The store in which the ranks of a run exchange what they need before they can use NCCL: a c10d::TCPStore.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backend/cuda/stream.hpp"

namespace penstock {

/// The address of the store.
struct RendezvousPlace {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  std::string prefix{};  ///< prefix of all keys, if others use the store as well
  /// A socket that listens on that port, on the rank that hosts the store. The store takes it over.
  std::optional<int> socket{};
};

class Rendezvous {
 public:
  /// Connects to the store. Throws Stopped, or std::runtime_error if the store does not answer within the
  /// deadline.
  Rendezvous(const RendezvousPlace& place, const WaitLimits& limits);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;
  ~Rendezvous();

  /// Sets a key. If the store is lost, every call waits a few seconds before it throws std::runtime_error,
  /// because the rank that hosts the store is about to report why it ended. It throws Stopped if that report
  /// arrives.
  void set(const std::string& key, const std::string& value, const WaitLimits& limits = {});
  /// Returns the value, or nothing if the key is not set yet.
  std::optional<std::string> look_up(const std::string& key, const WaitLimits& limits = {});
  /// Waits until the key is set. Throws Stopped, or std::runtime_error after the deadline; the message
  /// contains `from_whom`.
  std::string get(const std::string& key, const WaitLimits& limits, const std::string& from_whom);

 private:
  struct Store;
  std::unique_ptr<Store> store_;
  RendezvousPlace place_;
};

}  // namespace penstock
