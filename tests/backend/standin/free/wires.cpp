// Sockets do not block. A wait polls the socket together with the descriptor of the interrupt. After the
// interrupt is set, its descriptor remains readable.

#include "tests/backend/standin/free/wires.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace standin {
namespace {

constexpr int kBacklog = 64;

Descriptor new_socket() { return Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

/// Waits for `events` of the descriptor. Throws PeerLost if one of the `watched` connections has ended.
void wait_for(int descriptor, short events, const Interrupt& interrupt,
              const std::vector<Wire>& watched = {}) {
  std::vector<pollfd> polled = {{descriptor, events, 0}, {interrupt.descriptor(), POLLIN, 0}};
  for (const Wire& wire : watched) polled.push_back({wire.descriptor(), POLLIN, 0});
  while (poll(polled.data(), polled.size(), -1) < 0 && errno == EINTR) continue;
  if (polled[1].revents != 0) throw Aborted{};
  if (polled[0].revents != 0) return;
  throw PeerLost{};
}

bool is_asked_for(const ifaddrs& interface) {
  if (interface.ifa_addr == nullptr || interface.ifa_addr->sa_family != AF_INET) return false;
  if ((interface.ifa_flags & IFF_UP) == 0) return false;
  const char* asked = std::getenv("NCCL_SOCKET_IFNAME");
  if (asked != nullptr) return std::string_view(interface.ifa_name).starts_with(asked);
  return (interface.ifa_flags & IFF_LOOPBACK) == 0;
}

/// Returns the address of the first interface that is allowed, or the loopback address if there is none.
in_addr own_address() {
  ifaddrs* interfaces = nullptr;
  getifaddrs(&interfaces);
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(interfaces, freeifaddrs);
  for (const ifaddrs* one = interfaces; one != nullptr; one = one->ifa_next) {
    if (is_asked_for(*one)) return reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr;
  }
  return {.s_addr = htonl(INADDR_LOOPBACK)};
}

}  // namespace

Interrupt::Interrupt() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
Interrupt::~Interrupt() { close(descriptor_); }
void Interrupt::set() const { static_cast<void>(eventfd_write(descriptor_, 1)); }

Descriptor::Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}
Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

Wire::Wire(Descriptor socket) : socket_(std::move(socket)) {
  const int yes = 1;
  setsockopt(descriptor(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

Wire Wire::connect(const sockaddr_in& address, const Interrupt& interrupt) {
  Wire wire(new_socket());
  const auto* where = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(wire.descriptor(), where, sizeof(address)) == 0) return wire;
  if (errno != EINPROGRESS) throw PeerLost{};
  wait_for(wire.descriptor(), POLLOUT, interrupt);
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(wire.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) throw PeerLost{};
  return wire;
}

void Wire::send(const void* bytes, std::size_t count, const Interrupt& interrupt) const {
  const auto* next = static_cast<const std::byte*>(bytes);
  while (count > 0) {
    const ssize_t sent = ::send(descriptor(), next, count, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) throw PeerLost{};
    if (sent < 0) {
      wait_for(descriptor(), POLLOUT, interrupt);
      continue;
    }
    next += sent;
    count -= static_cast<std::size_t>(sent);
  }
}

void Wire::receive(void* bytes, std::size_t count, const Interrupt& interrupt) const {
  auto* next = static_cast<std::byte*>(bytes);
  while (count > 0) {
    const ssize_t got = recv(descriptor(), next, count, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) throw PeerLost{};
    if (got < 0) {
      wait_for(descriptor(), POLLIN, interrupt);
      continue;
    }
    next += got;
    count -= static_cast<std::size_t>(got);
  }
}

Listener::Listener() : socket_(new_socket()) {
  address_.sin_family = AF_INET;
  address_.sin_addr = own_address();
  auto* where = reinterpret_cast<sockaddr*>(&address_);
  socklen_t size = sizeof(address_);
  const bool listens = bind(socket_.number(), where, size) == 0 && listen(socket_.number(), kBacklog) == 0 &&
                       getsockname(socket_.number(), where, &size) == 0;
  if (!listens) throw std::runtime_error("stand-in: cannot listen");
}

Wire Listener::accept(const std::vector<Wire>& watched, const Interrupt& interrupt) const {
  for (;;) {
    const int accepted = accept4(socket_.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (accepted >= 0) return Wire(Descriptor(accepted));
    wait_for(socket_.number(), POLLIN, interrupt, watched);
  }
}

}  // namespace standin
