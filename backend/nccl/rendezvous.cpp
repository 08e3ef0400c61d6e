// c10d::TCPStore, because torchrun already runs one and ranks can meet there without a second port. The
// socket is opened first and handed over while it listens: a port that was free a moment ago may be taken the
// next.

#include "backend/nccl/rendezvous.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tl/expected.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "backend/cuda/stream.hpp"
#include "backend/executor/transport.hpp"

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks(1);
constexpr int kBacklog = 1024;

tl::unexpected<std::string> failed(const std::string& address, std::uint16_t port, const std::string& why) {
  return tl::unexpected("cannot listen on " + address + ":" + std::to_string(port) + ": " + why);
}

/// The first of an address's numbers.
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

/// In one line: c10's errors carry a backtrace.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
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

struct Rendezvous::Store {
  c10d::TCPStore store;
};

Rendezvous::Rendezvous(const RendezvousPlace& place, std::chrono::milliseconds patience)
    : prefix_(place.prefix) {
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.isServer = place.socket.has_value();
  options.waitWorkers = false;
  options.timeout = patience;
  options.masterListenFd = place.socket;
  try {
    store_ = std::unique_ptr<Store>(new Store{c10d::TCPStore(place.address, options)});
  } catch (const std::exception& error) {
    throw std::runtime_error("the store at " + place.address + ":" + std::to_string(place.port) +
                             " cannot be reached: " + first_line(error));
  }
}

Rendezvous::~Rendezvous() = default;

void Rendezvous::set(const std::string& key, const std::string& value) {
  store_->store.set(prefix_ + key, std::vector<std::uint8_t>(value.begin(), value.end()));
}

std::optional<std::string> Rendezvous::look_up(const std::string& key) {
  if (!store_->store.check({prefix_ + key})) return std::nullopt;
  const std::vector<std::uint8_t> value = store_->store.get(prefix_ + key);
  return std::string(value.begin(), value.end());
}

std::string Rendezvous::get(const std::string& key, const WaitLimits& limits, const std::string& from_whom) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    if (auto value = look_up(key)) return *std::move(value);
    if (limits.stopped && limits.stopped()) throw Stopped{};
    if (std::chrono::steady_clock::now() - begin > limits.deadline) {
      std::string what = "nothing came from " + from_whom;
      what.append(" through the store (").append(key).append(")");
      throw std::runtime_error(what);
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

}  // namespace penstock
