#pragma once
// A socket that one process opens and another library takes over.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

namespace penstock {

/// A listening socket, closed by the destructor.
class ListeningSocket {
 public:
  /// Opens the socket. `port` 0 means any free port. Error: the host has no such address, or the port is in
  /// use.
  static tl::expected<ListeningSocket, std::string> open(const std::string& address, std::uint16_t port);

  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&& other) noexcept;
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;
  ~ListeningSocket();

  std::uint16_t port() const { return port_; }
  /// Returns the socket and gives up its ownership.
  int release();

 private:
  ListeningSocket(int socket, std::uint16_t port) : socket_(socket), port_(port) {}
  int socket_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace penstock
