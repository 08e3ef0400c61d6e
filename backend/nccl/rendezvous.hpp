#pragma once
// Where the ranks of a run tell each other what they need before they can use NCCL: a c10d::TCPStore.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backend/cuda/stream.hpp"

namespace penstock {

/// Where the store is.
struct RendezvousPlace {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  std::string prefix{};         ///< of all keys, where others use the store, too
  std::optional<int> socket{};  ///< of the rank that hosts the store: listens on that port, and is taken over
};

class Rendezvous {
 public:
  /// Throws Stopped; std::runtime_error when the store does not answer within the deadline.
  Rendezvous(const RendezvousPlace& place, const WaitLimits& limits);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;
  ~Rendezvous();

  /// Where the store is lost, all calls wait for a few seconds before they throw std::runtime_error (Stopped,
  /// where somebody stops them): the rank that hosts the store is then about to say why it ended.
  void set(const std::string& key, const std::string& value, const WaitLimits& limits = {});
  /// Nothing when nobody has set it yet.
  std::optional<std::string> look_up(const std::string& key, const WaitLimits& limits = {});
  /// Looks until it has been set. Throws Stopped; std::runtime_error, which says `from_whom`, past the
  /// deadline.
  std::string get(const std::string& key, const WaitLimits& limits, const std::string& from_whom);

 private:
  struct Store;
  std::unique_ptr<Store> store_;
  RendezvousPlace place_;
};

}  // namespace penstock
