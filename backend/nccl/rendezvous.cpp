// c10d::TCPStore, because torchrun already runs one and ranks can meet there without a second port. Where
// rank 0 hosts it, it takes over a socket that listens already (listening_socket.hpp).
// The store ends with the rank that hosts it, and then all others lose it at once (first_word.hpp).

#include "backend/nccl/rendezvous.hpp"

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "backend/cuda/stream.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/first_word.hpp"

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks(1);
constexpr std::chrono::milliseconds kAnAttempt(1000);

/// In one line: c10's errors carry a backtrace.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

std::string name_of(const RendezvousPlace& place) {
  return "the store at " + place.address + ":" + std::to_string(place.port);
}

/// What `call` returns, of a store that may be lost at any time.
template <typename Call>
auto of_store(const RendezvousPlace& place, const WaitLimits& limits, const Call& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    let_others_speak(limits);
    throw std::runtime_error(name_of(place) + " is lost: " + first_line(error));
  }
}

}  // namespace

struct Rendezvous::Store {
  c10d::TCPStore store;
};

Rendezvous::Rendezvous(const RendezvousPlace& place, const WaitLimits& limits) : place_(place) {
  const auto until = std::chrono::steady_clock::now() + limits.deadline;
  while (store_ == nullptr) {
    if (limits.stopped && limits.stopped()) throw Stopped{};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    // Nobody can stop an attempt. A socket is taken over by the first.
    const bool is_last = left <= kAnAttempt || place.socket;
    try {
      store_ = open_store(is_last ? left : kAnAttempt);
    } catch (const std::exception& error) {
      if (is_last) throw std::runtime_error(name_of(place) + " cannot be reached: " + first_line(error));
    }
  }
}

std::unique_ptr<Rendezvous::Store> Rendezvous::open_store(std::chrono::milliseconds patience) const {
  c10d::TCPStoreOptions options;
  options.port = place_.port;
  options.isServer = place_.socket.has_value();
  options.waitWorkers = false;
  options.timeout = patience;
  options.masterListenFd = place_.socket;
  return std::unique_ptr<Store>(new Store{c10d::TCPStore(place_.address, options)});
}

Rendezvous::~Rendezvous() = default;

void Rendezvous::set(const std::string& key, const std::string& value, const WaitLimits& limits) {
  of_store(place_, limits, [&] {
    store_->store.set(place_.prefix + key, std::vector<std::uint8_t>(value.begin(), value.end()));
  });
}

std::optional<std::string> Rendezvous::look_up(const std::string& key, const WaitLimits& limits) {
  return of_store(place_, limits, [&]() -> std::optional<std::string> {
    if (!store_->store.check({place_.prefix + key})) return std::nullopt;
    const std::vector<std::uint8_t> value = store_->store.get(place_.prefix + key);
    return std::string(value.begin(), value.end());
  });
}

std::string Rendezvous::get(const std::string& key, const WaitLimits& limits, const std::string& from_whom) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    if (auto value = look_up(key, limits)) return *std::move(value);
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
