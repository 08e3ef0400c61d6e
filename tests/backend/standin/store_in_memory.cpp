// In place of the store that LibTorch runs: the ranks are threads of one process, and meet in one map.

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "backend/cuda/stream.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/rendezvous.hpp"
#include "tests/backend/standin/scheduler.hpp"

namespace penstock {
namespace {

std::map<std::string, std::string> values;  // one thread runs at a time; its edges are those of a mutex

}  // namespace

struct Rendezvous::Store {};

Rendezvous::Rendezvous(const RendezvousPlace& place, const WaitLimits&)
    : store_(std::make_unique<Store>()), place_(place) {}
Rendezvous::~Rendezvous() = default;

void Rendezvous::set(const std::string& key, const std::string& value, const WaitLimits&) {
  standin::scheduler->release(&values);
  values[place_.prefix + key] = value;
  standin::scheduler->news();
  standin::scheduler->maybe_let_others_run();
}

std::optional<std::string> Rendezvous::look_up(const std::string& key, const WaitLimits&) {
  standin::scheduler->asks_again(&values);
  standin::scheduler->maybe_let_others_run();
  standin::scheduler->acquire(&values);
  const auto found = values.find(place_.prefix + key);
  if (found != values.end()) return found->second;
  standin::scheduler->told_not_yet(&values);
  return std::nullopt;
}

std::string Rendezvous::get(const std::string& key, const WaitLimits& limits, const std::string& from_whom) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    if (auto value = look_up(key)) return *std::move(value);
    if (limits.stopped && limits.stopped()) throw Stopped{};
    if (std::chrono::steady_clock::now() - begin > limits.deadline) {
      throw std::runtime_error("nothing came from " + from_whom);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace penstock
