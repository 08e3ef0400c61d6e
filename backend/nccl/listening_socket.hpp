#pragma once
// A listening socket that Penstock opens and another library takes over.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

namespace penstock {

/// An owner of a listening socket. The destructor closes it.
class ListeningSocket {
 public:
  /// Opens the socket. If `port` is 0, the system chooses a free port. Error: the host does not have this
  /// address, or the port is in use.
  static tl::expected<ListeningSocket, std::string> open(const std::string& address, std::uint16_t port);

  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&& other) noexcept;
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;
  ~ListeningSocket();

  std::uint16_t port() const { return port_; }
  /// Returns the socket without closing it. The caller becomes its owner.
  int release();

 private:
  ListeningSocket(int socket, std::uint16_t port) : socket_(socket), port_(port) {}
  int socket_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace penstock
