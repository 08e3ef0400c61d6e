// An operation has four states. It is enqueued in its stream. It starts when it is the first in its stream
// and in the hardware queue that several streams may share. It runs when its peers have also started. Then it
// ends. Its work is done at the moment when it begins to run. Races are therefore not found by wrong data,
// but by vector clocks: an access must be ordered after the end of the operation.

#include "tests/backend/standin/devices.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "tests/backend/standin/world.hpp"

namespace standin {
namespace {

constexpr std::size_t kUsualConnections = 8;  // CUDA's default without an environment variable
constexpr std::uint64_t kMostJitter = 400;    // ns between the end of one operation and the start of the next

std::size_t connections_of_device() {
  const char* said = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  return said == nullptr ? kUsualConnections
                         : std::clamp<std::size_t>(std::strtoul(said, nullptr, 10), 1, 32);
}

/// Returns the hardware queue that the fewest of these streams share. CUDA's choice is not documented. On an
/// H200, programs of up to 16 streams ran as if each stream had its own queue, even after other streams were
/// destroyed.
std::size_t least_shared_connection(const std::vector<Stream*>& streams) {
  std::vector<std::size_t> shared(connections_of_device());
  // Default streams do not count. In this model they remain after their thread has ended, and runs do not use
  // them.
  for (const Stream* stream : streams) {
    if (!stream->destroyed && !stream->is_default) ++shared[stream->connection];
  }
  return static_cast<std::size_t>(std::ranges::min_element(shared) - shared.begin());
}

}  // namespace

Stream* Devices::new_stream(int device, std::vector<int> sms) {
  auto stream = std::make_unique<Stream>();
  stream->slot = world().scheduler.new_slot();
  stream->device = device;
  stream->process = this_thread->process;
  stream->sms = std::move(sms);
  stream->connection = least_shared_connection(streams_of(device, stream->process));
  streams_.push_back(std::move(stream));
  return streams_.back().get();
}

Stream* Devices::default_stream(int device) {
  Stream*& stream = defaults_[{this_thread->slot, device}];
  if (stream == nullptr) {
    stream = new_stream(device, world().all_sms());
    stream->is_default = true;
  }
  return stream;
}

Event* Devices::new_event(int device) {
  events_.push_back(std::make_unique<Event>(Event{.device = device}));
  return events_.back().get();
}

void Devices::give(Stream& stream, std::unique_ptr<Operation> operation) {
  const std::size_t most = world().setting.launch_queue;
  if (stream.queue.size() >= most) {
    ++world().blocked_launches;
    if (this_thread->timed) ++world().timed_waits;
    world().scheduler.wait_until("launches into a full queue", [&] { return stream.queue.size() < most; });
  }
  operation->number = ++numbers_;
  operation->given_by = this_thread->slot;
  operation->given = this_thread->clock;
  this_thread->clock.tick(this_thread->slot);
  connections_[{stream.device, stream.process, stream.connection}].push_back(operation->number);
  stream.queue.push_back(std::move(operation));
  ++stream.given;
  start_what_can();
}

bool Devices::may_start(const Stream& stream, const Operation& operation) const {
  if (operation.waits_for != nullptr && !operation.waits_for->passed) return false;
  if (connections_.at({stream.device, stream.process, stream.connection}).front() != operation.number)
    return false;
  return !operation.may_start || operation.may_start();
}

/// Repeats until no more operation starts or runs, because an operation that starts may be the peer for which
/// another one waits. It is not recursive, although running an operation may enqueue others.
void Devices::start_what_can() {
  if (busy_) return;
  busy_ = true;
  for (bool again = true; again;) {
    again = false;
    // The loop uses an index, because running an operation may add streams.
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      Stream& stream = *streams_[i];
      if (stream.queue.empty()) continue;
      if (!stream.queue.front()->has_started) again |= start(stream);
      if (!stream.queue.empty() && stream.queue.front()->has_started && !stream.queue.front()->is_running) {
        again |= run(stream);
      }
    }
  }
  busy_ = false;
}

bool Devices::start(Stream& stream) {
  Operation& operation = *stream.queue.front();
  if (!may_start(stream, operation)) return false;
  operation.has_started = true;
  connections_[{stream.device, stream.process, stream.connection}].pop_front();
  stream.clock.join(operation.given);
  if (operation.waits_for != nullptr) stream.clock.join(operation.waits_for->clock);
  stream.clock.tick(stream.slot);
  if (operation.started) operation.started();
  world().scheduler.news();
  return true;
}

/// Checks that the operation may use the memory of another device. A kernel may use it only after
/// cudaDeviceEnablePeerAccess(). A copy between devices that are not connected is allowed, but it goes
/// through the host and is slow.
void Devices::check_reach(const Stream& stream, const Operation& operation) const {
  const bool is_copy = std::string_view(operation.name).starts_with("cudaMemcpy");
  if (is_copy && !world().setting.peers_reach) return;
  for (const Access& access : operation.accesses) {
    if (!world().memory.is_device_memory(access.begin)) continue;
    const int device = world().memory.device_of(access.begin);
    if (device == stream.device || peers.contains({stream.device, device})) continue;
    world().defect(fmt::format("{} of device {} uses memory of device {} without access to it as a peer",
                               operation.name, stream.device, device));
  }
}

bool Devices::run(Stream& stream) {
  Operation& operation = *stream.queue.front();
  if (operation.may_run && !operation.may_run()) return false;
  operation.is_running = true;
  check_reach(stream, operation);
  const Toucher self{.what = operation.name, .slot = stream.slot};
  for (const Access& access : operation.accesses) world().memory.touch(access, self, stream.clock);
  const Ns takes = operation.run ? operation.run() : 0;
  if (world().is_fault(Fault::Kind::never_ends, operation.number)) return true;
  if (world().is_fault(Fault::Kind::late, operation.number)) errors[stream.device] = kLateError;
  if (takes == 0) {
    end(stream);
  } else {
    const Ns jitter = static_cast<Ns>(world().scheduler.random(kMostJitter));
    world().scheduler.at(world().scheduler.now() + takes + jitter, [this, &stream] { end(stream); });
  }
  return true;
}

void Devices::end(Stream& stream) {
  const std::unique_ptr<Operation> operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  ++stream.ended;
  ++ended_;
  if (operation->ended) operation->ended();
  world().scheduler.news();
}

bool Devices::is_idle(int device) const {
  return std::ranges::all_of(
      streams_, [device](const auto& stream) { return stream->device != device || stream->queue.empty(); });
}

std::vector<Stream*> Devices::streams_of(int device, int process) const {
  std::vector<Stream*> found;
  for (const auto& stream : streams_) {
    if (stream->device == device && stream->process == process) found.push_back(stream.get());
  }
  return found;
}

void Devices::wait_for_device(int device, const char* why) {
  std::vector<std::pair<Stream*, std::uint64_t>> given;
  for (Stream* stream : streams_of(device, this_thread->process)) given.emplace_back(stream, stream->given);
  const auto has_ended = [&] {
    return std::ranges::all_of(given, [](const auto& one) { return one.first->ended >= one.second; });
  };
  if (this_thread->timed && !has_ended()) ++world().timed_waits;
  world().scheduler.wait_until(why, has_ended);
  for (const auto& [stream, count] : given) this_thread->clock.join(stream->clock);
}

/// Returns true if an operation at the head of a stream waits for its peer. If the seed chooses so,
/// allocating and freeing memory of the device must then wait.
bool Devices::waits_for_peer(int device, int process) const {
  return std::ranges::any_of(streams_of(device, process), [](const Stream* stream) {
    if (stream->queue.empty()) return false;
    const Operation& head = *stream->queue.front();
    return head.has_started && !head.is_running;
  });
}

bool Devices::runs_beside(const Stream& stream, std::string_view name) const {
  return std::ranges::any_of(streams_, [&](const auto& other) {
    return other.get() != &stream && other->device == stream.device && !other->queue.empty() &&
           other->queue.front()->is_running && name == other->queue.front()->name;
  });
}

std::string Devices::heads() const {
  std::string text;
  for (const auto& stream : streams_) {
    if (stream->queue.empty()) continue;
    const Operation& head = *stream->queue.front();
    const char* state = head.is_running ? "runs" : head.has_started ? "has started" : "waits";
    text += fmt::format("\n  stream {} of device {}: {} {}, {} behind it", stream->slot, stream->device,
                        head.name, state, stream->queue.size() - 1);
  }
  return text;
}

void Devices::report_leaks() const {
  const auto streams = std::ranges::count_if(
      streams_, [](const auto& stream) { return !stream->destroyed && !stream->is_default; });
  const auto events = std::ranges::count_if(events_, [](const auto& event) { return !event->destroyed; });
  if (streams > 0) world().defect(fmt::format("leak: {} streams", streams));
  if (events > 0) world().defect(fmt::format("leak: {} events", events));
}

}  // namespace standin
