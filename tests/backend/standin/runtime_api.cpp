// The functions of the CUDA runtime that the backend calls. If the backend calls another function, linking
// fails. A call takes a few hundred ns, which depend on the seed, and another thread may run at each call.
// Lifetimes are as in CUDA: freeing memory waits for the device, and streams and events may be destroyed
// before their work has ended.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/backend/standin/device_facts.hpp"
#include "tests/backend/standin/kernel_launch.hpp"
#include "tests/backend/standin/runtime_call.hpp"
#include "tests/backend/standin/world.hpp"

namespace standin {

cudaError_t failed(cudaError_t error) {
  this_thread->last_error = error;
  return error;
}

cudaError_t enter(const char* name, Sort sort, const void* about) {
  World& all = world();
  const bool fails = all.note_call(name);
  all.is_started = true;
  if (sort == Sort::question) {
    all.scheduler.asks_again(about);
  } else if (sort == Sort::deed) {
    all.scheduler.answered();
    all.scheduler.news();
  }
  all.scheduler.spend(300 + static_cast<Ns>(all.scheduler.random(200)));
  if (all.is_forked) return failed(cudaErrorInitializationError);
  const int device = this_thread->device;
  if (fails && all.setting.fault.kind == Fault::Kind::sticky)
    all.devices.errors[device] = cudaErrorLaunchFailure;
  if (sort == Sort::own_affair) return fails ? failed(cudaErrorUnknown) : cudaSuccess;
  if (const auto sticky = all.devices.errors.find(device); sticky != all.devices.errors.end()) {
    return failed(static_cast<cudaError_t>(sticky->second));
  }
  return fails ? failed(cudaErrorUnknown) : cudaSuccess;
}

Stream* stream_of(cudaStream_t handle) {
  if (handle == cudaStreamPerThread) return world().devices.default_stream(this_thread->device);
  auto* stream = reinterpret_cast<Stream*>(handle);
  if (stream == nullptr) {
    world().defect("work on the legacy default stream");
    return world().devices.default_stream(this_thread->device);
  }
  if (stream->destroyed) world().defect("work on a stream that was destroyed");
  return stream;
}

namespace {

constexpr Ns kCopyStarts = 1'500;     // assumed times, not measurements of a GPU
constexpr double kNsPerByte = 0.005;  // 200 GB/s

int device_count() { return world().setting.devices; }

Toucher this_host_thread(const char* what) {
  return {.what = what, .slot = this_thread->slot, .on_host = true};
}

Event& event_of(cudaEvent_t handle, const char* call) {
  auto& event = *reinterpret_cast<Event*>(handle);
  if (event.destroyed) world().defect(fmt::format("{} of an event that was destroyed", call));
  return event;
}

/// Returns true for host memory that is not pinned. A copy of such memory waits.
bool is_pageable(const void* memory) { return !world().memory.knows(memory); }

/// Waits until no kernel of the device waits for its peer, if the seed decides that the driver blocks.
/// Allocations and frees call it.
void wait_for_resident_kernels(const char* call) {
  if (world().scheduler.random(2) == 0) return;
  const int device = this_thread->device;
  world().scheduler.wait_until(call, [device, process = this_thread->process] {
    return !world().devices.waits_for_peer(device, process);
  });
}

cudaError_t allocate(const char* call, Memory::Kind kind, void** memory, std::size_t bytes) {
  if (const cudaError_t error = enter(call); error != cudaSuccess) return error;
  world().note_allocation();
  wait_for_resident_kernels(call);
  *memory = world().memory.allocate(kind, this_thread->device, bytes);
  return cudaSuccess;
}

/// Frees memory. If the device has failed, the memory is freed, and the call returns the error of the device.
cudaError_t release(const char* call, void* memory) {
  const cudaError_t error = enter(call);
  if (memory == nullptr) return error;
  world().note_allocation();
  const int device = world().memory.device_of(memory);
  world().devices.wait_for_device(device, call);
  if (!world().memory.free(memory, this_host_thread(call), this_thread->clock)) {
    world().defect(fmt::format("{} of what was not allocated, or was freed before", call));
    return failed(cudaErrorInvalidValue);
  }
  return error;
}

void give(Stream& stream, const char* name, Ns takes, std::vector<Access> accesses,
          std::function<void()> work) {
  auto operation = std::make_unique<Operation>();
  operation->name = name;
  operation->accesses = std::move(accesses);
  operation->run = [takes, work = std::move(work)] {
    work();
    return takes;
  };
  world().devices.give(stream, std::move(operation));
}

Ns time_of_copy(std::size_t bytes) {
  return kCopyStarts + static_cast<Ns>(static_cast<double>(bytes) * kNsPerByte);
}

}  // namespace
}  // namespace standin

using standin::enter;
using standin::failed;
using standin::Sort;
using standin::stream_of;
using standin::this_thread;
using standin::world;

namespace {

constexpr int kGreatestPriority = -5;  // in CUDA, smaller numbers are higher priorities

}  // namespace

extern "C" {

// --- devices

cudaError_t cudaGetDeviceCount(int* count) {
  if (const cudaError_t error = enter("cudaGetDeviceCount"); error != cudaSuccess) return error;
  *count = standin::device_count();
  return *count > 0 ? cudaSuccess : failed(cudaErrorNoDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* facts, int device) {
  if (const cudaError_t error = enter("cudaGetDeviceProperties"); error != cudaSuccess) return error;
  if (device < 0 || device >= standin::device_count()) return failed(cudaErrorInvalidDevice);
  *facts = standin::properties_of(world().setting.sms, world().setting.capability, device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (const cudaError_t error = enter("cudaDeviceGetAttribute"); error != cudaSuccess) return error;
  if (device < 0 || device >= standin::device_count()) return failed(cudaErrorInvalidDevice);
  if (attribute != cudaDevAttrMultiProcessorCount) return failed(cudaErrorInvalidValue);
  *value = static_cast<int>(world().all_sms().size());
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = enter("cudaSetDevice", Sort::own_affair); error != cudaSuccess) return error;
  if (device < 0 || device >= standin::device_count()) return failed(cudaErrorInvalidDevice);
  if (world().has_mutant("the wrong device is current") && this_thread->timed &&
      ++device == standin::device_count())
    device = 0;
  this_thread->device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = this_thread->device;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* reaches, int, int) {
  if (const cudaError_t error = enter("cudaDeviceCanAccessPeer"); error != cudaSuccess) return error;
  *reaches = world().setting.peers_reach ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (const cudaError_t error = enter("cudaDeviceEnablePeerAccess"); error != cudaSuccess) return error;
  if (flags != 0) return failed(cudaErrorInvalidValue);
  if (peer < 0 || peer >= standin::device_count() || peer == this_thread->device)
    return failed(cudaErrorInvalidDevice);
  if (!world().setting.peers_reach) return failed(cudaErrorPeerAccessUnsupported);
  if (world().has_mutant("peers are never connected")) return cudaSuccess;
  const bool is_new = world().devices.peers.emplace(this_thread->device, peer).second;
  return is_new ? cudaSuccess : failed(cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (const cudaError_t error = enter("cudaDeviceGetStreamPriorityRange"); error != cudaSuccess) return error;
  *least = 0;
  *greatest = kGreatestPriority;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  const cudaError_t error = enter("cudaDeviceSynchronize");
  world().devices.wait_for_device(this_thread->device, "cudaDeviceSynchronize");
  return error;
}

// --- streams and events

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  if (const cudaError_t error = enter("cudaStreamCreateWithPriority"); error != cudaSuccess) return error;
  if (flags != cudaStreamNonBlocking) world().defect("a stream that waits for the default stream");
  world().note_allocation();
  standin::Stream* made = world().devices.new_stream(this_thread->device, world().all_sms());
  if (world().has_mutant("priorities are swapped")) priority = kGreatestPriority - priority;
  made->has_high_priority = priority == kGreatestPriority;
  *stream = reinterpret_cast<cudaStream_t>(made);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const cudaError_t error = enter("cudaStreamDestroy");
  world().note_allocation();
  stream_of(stream)->destroyed = true;
  return error;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (const cudaError_t error = enter("cudaEventCreateWithFlags"); error != cudaSuccess) return error;
  if (flags != cudaEventDisableTiming) world().defect("an event that measures a time, which makes it slower");
  world().note_allocation();
  *event = reinterpret_cast<cudaEvent_t>(world().devices.new_event(this_thread->device));
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const cudaError_t error = enter("cudaEventDestroy");
  world().note_allocation();
  if (world().has_mutant("events are never destroyed")) return error;
  standin::event_of(event, "cudaEventDestroy").destroyed = true;
  return error;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
  if (const cudaError_t error = enter("cudaEventRecord"); error != cudaSuccess) return error;
  standin::Event& event = standin::event_of(handle, "cudaEventRecord");
  standin::Stream& on = world().has_mutant("an event is recorded on another stream")
                            ? *world().devices.default_stream(event.device)
                            : *stream_of(stream);
  if (event.device != on.device) {
    world().defect("an event of one device recorded on a stream of another");
    return failed(cudaErrorInvalidResourceHandle);
  }
  if (world().has_mutant("an event is made for each record")) world().note_allocation();
  event.before_last = event.last;
  event.hides_pending = event.last != nullptr && !event.last->passed;
  event.last = std::make_shared<standin::Record>();
  auto operation = std::make_unique<standin::Operation>();
  operation->name = "cudaEventRecord";
  operation->ended = [record = event.last, &on] {
    record->passed = true;
    record->clock = on.clock;
  };
  world().devices.give(on, std::move(operation));
  if (this_thread->timed && world().has_mutant("the host waits for each record")) {
    ++world().timed_waits;
    world().scheduler.wait_until("waits for its record", [record = event.last] { return record->passed; });
  }
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  if (const cudaError_t error = enter("cudaEventQuery", Sort::question, handle); error != cudaSuccess)
    return error;
  const standin::Event& event = standin::event_of(handle, "cudaEventQuery");
  if (event.last == nullptr) return cudaSuccess;
  if (event.hides_pending) world().defect("a query of an event that was recorded again before it had passed");
  if (!event.last->passed && !world().has_mutant("events say that they have passed")) {
    world().scheduler.told_not_yet(handle);
    return failed(cudaErrorNotReady);
  }
  this_thread->clock.join(event.last->clock);
  world().scheduler.answered();
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t handle, unsigned flags) {
  if (const cudaError_t error = enter("cudaStreamWaitEvent"); error != cudaSuccess) return error;
  if (flags != cudaEventWaitDefault) return failed(cudaErrorInvalidValue);
  const standin::Event& event = standin::event_of(handle, "cudaStreamWaitEvent");
  if (event.last == nullptr || world().has_mutant("events hold nothing back")) return cudaSuccess;
  auto operation = std::make_unique<standin::Operation>();
  operation->name = "cudaStreamWaitEvent";
  operation->waits_for = event.last;
  if (world().has_mutant("an event holds back what its record before the last did")) {
    operation->waits_for = event.before_last;
  }
  world().devices.give(*stream_of(stream), std::move(operation));
  return cudaSuccess;
}

// --- memory

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return standin::allocate("cudaMalloc", standin::Memory::Kind::device, memory, bytes);
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return standin::allocate("cudaHostAlloc", standin::Memory::Kind::pinned, memory, bytes);
}

cudaError_t cudaFree(void* memory) {
  if (world().has_mutant("memory is never freed")) return cudaSuccess;
  if (world().has_mutant("memory is freed twice") && memory != nullptr) standin::release("cudaFree", memory);
  return standin::release("cudaFree", memory);
}
cudaError_t cudaFreeHost(void* memory) { return standin::release("cudaFreeHost", memory); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (const cudaError_t error = enter("cudaMemcpyAsync"); error != cudaSuccess) return error;
  if (kind != cudaMemcpyDefault) world().defect("cudaMemcpyAsync with a stated direction");
  if (standin::is_pageable(to) || standin::is_pageable(from)) {
    world().defect("cudaMemcpyAsync with pageable memory, which waits");
  }
  world().copied_bytes += bytes;
  standin::give(*stream_of(stream), "cudaMemcpyAsync", standin::time_of_copy(bytes),
                {{from, bytes, false}, {to, bytes, true}}, [=] {
                  const bool is_short = world().has_mutant("copies are a byte short");
                  if (world().memory.already_holds(to, from, bytes)) return;
                  std::memmove(to, from, bytes - (is_short ? 1 : 0));
                });
  if (this_thread->timed && world().has_mutant("memory is freed while a copy out of it is on its way"))
    world().memory.free(from, standin::this_host_thread("cudaFree"), this_thread->clock);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = enter("cudaMemsetAsync"); error != cudaSuccess) return error;
  standin::give(*stream_of(stream), "cudaMemsetAsync", standin::time_of_copy(bytes), {{to, bytes, true}},
                [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

/// Runs on the default stream. Non-blocking streams do not wait for it, so their work on the memory must have
/// ended.
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t error = enter("cudaMemcpy"); error != cudaSuccess) return error;
  const auto wanted = standin::is_pageable(to)     ? cudaMemcpyDeviceToHost
                      : standin::is_pageable(from) ? cudaMemcpyHostToDevice
                                                   : cudaMemcpyDeviceToDevice;
  if (kind != wanted && kind != cudaMemcpyDefault) {
    world().defect("cudaMemcpy in another direction than its memory's");
    return failed(cudaErrorInvalidMemcpyDirection);
  }
  if (this_thread->timed) ++world().timed_waits;
  for (const auto& [memory, writes] : {std::pair<const void*, bool>(from, false), {to, true}}) {
    if (standin::is_pageable(memory)) continue;
    world().memory.touch({memory, bytes, writes}, standin::this_host_thread("cudaMemcpy"),
                         this_thread->clock);
  }
  std::memmove(to, from, bytes);
  world().scheduler.spend(standin::time_of_copy(bytes));
  return cudaSuccess;
}

// --- errors

cudaError_t cudaGetLastError() {
  const auto error = static_cast<cudaError_t>(this_thread->last_error);
  this_thread->last_error = cudaSuccess;
  return error;
}

}  // extern "C"

namespace standin {

// Launches in virtual time. A launch becomes an operation of its stream. The kernel's thread has its own
// clock, which gives the duration of the operation. Reading the clock takes some time, a nap takes the
// requested time, and moving bytes also takes time.

namespace {

constexpr std::uint64_t kReading = 400;  // the time in ns to read the clock
constexpr Ns kShortest = 1'000;          // the time of a kernel that does nothing
constexpr double kKernelNsPerByte = 0.004;

/// Returns the device whose timer a kernel of the stream reads. The timers of two devices differ.
int clock_of(const Stream& stream) {
  const bool is_wrong = world().is_timed && stream.has_high_priority &&
                        world().has_mutant("message times are read by the receiver's clock");
  return is_wrong ? (stream.device + 1) % world().setting.devices : stream.device;
}

class VirtualHere : public Here {
 public:
  VirtualHere(const Stream& stream, unsigned block, unsigned blocks)
      : Here(static_cast<std::uint32_t>(stream.sms[block % stream.sms.size()]), block, blocks),
        begin_(device_moment(clock_of(stream), static_cast<std::uint64_t>(world().scheduler.now()))),
        time_(begin_) {}
  std::uint64_t now() override { return time_ += kReading; }
  void nap(unsigned ns) override { time_ += ns; }
  Ns taken() const { return static_cast<Ns>(time_ - begin_); }

 private:
  std::uint64_t begin_;
  std::uint64_t time_;
};

bool is(const Launch& launch, std::string_view kernel) {
  return std::string_view(launch.kernel->name).starts_with(kernel);
}

/// Returns true for a large copy that would change nothing. It is then not made again.
bool changes_nothing(const Launch& launch, const std::vector<Access>& touched) {
  return is(launch, "copy(") &&
         world().memory.already_holds(touched[1].begin, touched[0].begin, touched[0].bytes);
}

/// Runs the kernel and returns the time of its longest block.
Ns run(const Launch& launch, const std::vector<Access>& touched, const Stream& stream) {
  Ns longest = kShortest;
  double bytes = 0;
  for (const Access& access : touched) bytes += static_cast<double>(access.bytes);
  longest = std::max(longest, static_cast<Ns>(bytes * kKernelNsPerByte));
  if (changes_nothing(launch, touched)) return longest;
  for (unsigned block = 0; block < launch.blocks; ++block) {
    VirtualHere here(stream, block, launch.blocks);
    launch.kernel->run(here, launch);
    longest = std::max(longest, here.taken());
  }
  // The product divides the differences of stamps by the time scale. The tests of scales have a scale of 2.
  if (is(launch, "stamp(") && world().has_mutant("stamps are not scaled"))
    *launch.argument<std::uint64_t*>(0) *= 2;
  return longest;
}

}  // namespace

cudaError_t launch(const Launch& asked, cudaStream_t handle) {
  if (const cudaError_t error = enter("cudaLaunchKernel"); error != cudaSuccess) return error;
  if (world().has_mutant("launches fail in silence") && world().scheduler.random(50) == 0) return cudaSuccess;
  Stream& stream = *stream_of(handle);
  if (stream.device != this_thread->device) {
    world().defect("a kernel launched on a stream of a device that is not current");
    return failed(cudaErrorInvalidResourceHandle);
  }
  Launch given = asked;
  if (is(given, "hold_since(") && world().has_mutant("links take no time")) given.arguments[1] = 0;
  if (is(given, "hold(") && world().has_mutant("holds end at once")) given.arguments[0] = 0;
  if (is(given, "hold_since(") && world().has_mutant("links are not scaled")) given.arguments[1] /= 2;
  if (is(given, "hold(") && world().has_mutant("holds are not scaled")) given.arguments[0] /= 2;
  // A link's hold begins at the stamp before its end. The latency begins at the end of the message.
  const bool is_latency = is(given, "hold_since(") && given.arguments[2] != given.arguments[0] + sizeof(Ns);
  if (is_latency && world().has_mutant("the latency counts from the copy's start"))
    given.arguments[0] -= sizeof(Ns);
  auto operation = std::make_unique<Operation>();
  operation->name = given.kernel->name;
  operation->accesses = given.kernel->accesses(given);
  operation->run = [given, touched = operation->accesses, &stream] { return run(given, touched, stream); };
  world().devices.give(stream, std::move(operation));
  if (stream.behind_next_stamp != nullptr) world().devices.give(stream, std::move(stream.behind_next_stamp));
  return cudaSuccess;
}

void no_host_form(const std::string& kernel) { world().hang(("no host form of kernel " + kernel).c_str()); }

}  // namespace standin
