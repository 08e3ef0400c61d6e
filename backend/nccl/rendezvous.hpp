#pragma once
// Where the ranks of a run tell each other what they need before they can use NCCL: a c10d::TCPStore.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "backend/cuda/stream.hpp"

namespace penstock {

/// A socket that listens; closed in its destructor.
class ListeningSocket {
 public:
  /// `port` 0: any that is free. Error: there is no such address here, or the port is in use.
  static tl::expected<ListeningSocket, std::string> open(const std::string& address, std::uint16_t port);

  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&& other) noexcept;
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;
  ~ListeningSocket();

  std::uint16_t port() const { return port_; }
  /// Hands the socket to whoever closes it then.
  int release();

 private:
  ListeningSocket(int socket, std::uint16_t port) : socket_(socket), port_(port) {}
  int socket_ = -1;
  std::uint16_t port_ = 0;
};

/// Where the store is.
struct RendezvousPlace {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  std::string prefix{};         ///< of all keys, where others use the store, too
  std::optional<int> socket{};  ///< of the rank that hosts the store: listens on that port, and is taken over
};

class Rendezvous {
 public:
  /// Throws std::runtime_error when the store does not answer within `patience`.
  Rendezvous(const RendezvousPlace& place, std::chrono::milliseconds patience);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;
  ~Rendezvous();

  void set(const std::string& key, const std::string& value);
  /// Nothing when nobody has set it yet.
  std::optional<std::string> look_up(const std::string& key);
  /// Looks until it has been set. Throws Stopped; std::runtime_error, which says `from_whom`, past the
  /// deadline.
  std::string get(const std::string& key, const WaitLimits& limits, const std::string& from_whom);

 private:
  struct Store;
  std::unique_ptr<Store> store_;
  std::string prefix_;
};

}  // namespace penstock
