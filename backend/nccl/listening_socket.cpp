// Opens a listening socket that another library takes over while it listens. Passing only a number of a free
// port is not safe, because another process may take the port in the meantime.

#include "backend/nccl/listening_socket.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include <tl/expected.hpp>

namespace penstock {
namespace {

// The largest number of waiting connections. All ranks connect at once, and the kernel drops connections
// beyond this number.
constexpr int kBacklog = 1024;

tl::unexpected<std::string> failed(const std::string& address, std::uint16_t port, const std::string& why) {
  return tl::unexpected("cannot listen on " + address + ":" + std::to_string(port) + ": " + why);
}

/// Returns the first IPv4 address for a host name or address, with the port. Returns nothing if there is
/// none.
std::optional<sockaddr_in> numbers_of(const std::string& address, std::uint16_t port) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), nullptr, &wanted, &found) != 0 || found == nullptr) return std::nullopt;
  sockaddr_in numbers{};
  std::memcpy(&numbers, found->ai_addr, sizeof(numbers));
  freeaddrinfo(found);
  numbers.sin_port = htons(port);
  return numbers;
}

}  // namespace

tl::expected<ListeningSocket, std::string> ListeningSocket::open(const std::string& address,
                                                                 std::uint16_t port) {
  auto numbers = numbers_of(address, port);
  if (!numbers) return failed(address, port, "no such address");
  ListeningSocket opened(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port);
  if (opened.socket_ < 0) return failed(address, port, std::strerror(errno));
  const int yes = 1;
  // NOLINTNEXTLINE(misc-include-cleaner): <sys/socket.h> has them
  setsockopt(opened.socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  auto* where = reinterpret_cast<sockaddr*>(&*numbers);
  socklen_t length = sizeof(*numbers);
  if (bind(opened.socket_, where, length) != 0 || listen(opened.socket_, kBacklog) != 0 ||
      getsockname(opened.socket_, where, &length) != 0) {
    return failed(address, port, std::strerror(errno));
  }
  opened.port_ = ntohs(numbers->sin_port);
  return opened;
}

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), port_(other.port_) {}

ListeningSocket& ListeningSocket::operator=(ListeningSocket&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(port_, other.port_);
  return *this;
}

ListeningSocket::~ListeningSocket() {
  if (socket_ >= 0) close(socket_);
}

int ListeningSocket::release() { return std::exchange(socket_, -1); }

}  // namespace penstock
