// Lets ranks exchange data through c10d::TCPStore. torchrun already runs such a store, so the ranks need
// no second port. If rank 0 hosts the store, the store takes ownership of a listening socket
// (nccl_run.hpp). If rank 0 ends, the store ends, and all other ranks lose their connection at once
// (failure_report.hpp). If the process of rank 0 is suspended, the store does not answer, and c10d's calls
// then ignore their deadline.

#include "backend/nccl/rendezvous.hpp"

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "backend/cuda/stream.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/failure_report.hpp"

namespace penstock {

namespace {

constexpr std::chrono::milliseconds kBetweenLooks(1);
// The log level of c10. c10 also throws its errors as exceptions, so it need not log them.
constexpr int kFatal = 3;
// The time after the deadline in which c10 may still report its own error.
constexpr std::chrono::seconds kForItsOwnWords(1);

/// Returns the first line of an error's text. c10 appends a backtrace in the following lines.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

std::string name_of(const RendezvousPlace& place) {
  return "the store at " + place.address + ":" + std::to_string(place.port);
}

}  // namespace

/// The connection to the store. If a call does not return, its thread still uses the connection, so the call
/// shares the ownership.
struct Rendezvous::Store {
  using Opened = std::unique_ptr<c10d::TCPStore>;

  /// Calls `question` with the store on another thread, and waits for its return within `limits`. The store
  /// may end or stop answering at any time.
  void ask(std::function<void(c10d::TCPStore&)> question, const RendezvousPlace& place,
           const WaitLimits& limits) {
    try {
      calls.make([opened = opened, question = std::move(question)] { question(**opened); }, limits);
    } catch (const std::exception& error) {
      wait_for_failure_report(limits);
      throw std::runtime_error(name_of(place) + " is lost: " + first_line(error));
    }
  }

  std::shared_ptr<Opened> opened = std::make_shared<Opened>();
  BlockingCalls calls;
};

Rendezvous::Rendezvous(const RendezvousPlace& place, const WaitLimits& limits)
    : store_(std::make_unique<Store>()), place_(place) {
  FLAGS_caffe2_log_level = kFatal;
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.isServer = place.socket.has_value();
  options.waitWorkers = false;
  options.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(limits.deadline);
  options.masterListenFd = place.socket;
  try {
    store_->calls.make([opened = store_->opened, address = place.address,
                        options] { *opened = std::make_unique<c10d::TCPStore>(address, options); },
                       {.stopped = limits.stopped, .deadline = limits.deadline + kForItsOwnWords});
  } catch (const std::exception& error) {
    throw std::runtime_error(name_of(place) + " cannot be reached: " + first_line(error));
  }
}

Rendezvous::~Rendezvous() = default;

void Rendezvous::set(const std::string& key, const std::string& value, const WaitLimits& limits) {
  store_->ask([key = place_.prefix + key, bytes = std::vector<std::uint8_t>(value.begin(), value.end())](
                  c10d::TCPStore& store) { store.set(key, bytes); },
              place_, limits);
}

std::optional<std::string> Rendezvous::look_up(const std::string& key, const WaitLimits& limits) {
  const auto found = std::make_shared<std::optional<std::string>>();
  store_->ask(
      [key = place_.prefix + key, found](c10d::TCPStore& store) {
        if (!store.check({key})) return;
        const std::vector<std::uint8_t> value = store.get(key);
        found->emplace(value.begin(), value.end());
      },
      place_, limits);
  return *found;
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

// Runs calls that may block forever. The caller waits on a condition variable and regularly checks for a
// stop. The thread that runs the call may outlive the caller, so the two share the ownership of all data.

namespace {

constexpr std::chrono::milliseconds kBetweenStops(1);

}  // namespace

BlockingCalls::BlockingCalls() : thread_([shared = shared_] { carry_out(shared); }) {}

BlockingCalls::~BlockingCalls() {
  std::unique_lock lock(shared_->mutex);
  shared_->ends = true;
  shared_->changed.notify_all();
  const bool is_left_behind = shared_->call != nullptr;
  lock.unlock();
  is_left_behind ? thread_.detach() : thread_.join();
}

void BlockingCalls::carry_out(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->changed.wait(lock, [&] { return shared->ends || shared->call; });
    // If a call was requested before `ends` was set, it must still run. So the loop ends only if there is no
    // call.
    if (!shared->call) return;
    lock.unlock();
    std::exception_ptr failure;
    try {
      shared->call();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    // This thread also destroys the call's data, because their destructors may block as well.
    shared->call = nullptr;
    shared->failure = failure;
    shared->changed.notify_all();
  }
}

void BlockingCalls::make(std::function<void()> call, const WaitLimits& limits) {
  std::unique_lock lock(shared_->mutex);
  // An earlier call has not returned, so the thread cannot run another one.
  if (shared_->call) throw std::runtime_error("an earlier call has not been answered");
  shared_->call = std::move(call);
  shared_->changed.notify_all();
  const auto until = std::chrono::steady_clock::now() + limits.deadline;
  while (!shared_->changed.wait_for(lock, kBetweenStops, [this] { return !shared_->call; })) {
    if (limits.stopped && limits.stopped()) throw Stopped{};
    if (std::chrono::steady_clock::now() > until) throw std::runtime_error("no answer in time");
  }
  if (const std::exception_ptr failure = std::exchange(shared_->failure, nullptr))
    std::rethrow_exception(failure);
}

}  // namespace penstock
