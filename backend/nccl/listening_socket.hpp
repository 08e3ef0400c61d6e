#pragma once
// A socket that one process opens and another library takes over.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

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

}  // namespace penstock
