// The functions of the CUDA runtime that the backend calls, with the host's memory and clocks. If the backend
// calls another function, linking fails. There are no green contexts, so a device is always used as a whole.

#include <cuda_runtime_api.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tests/backend/standin/device_facts.hpp"
#include "tests/backend/standin/free/calls.hpp"
#include "tests/backend/standin/free/streams.hpp"
#include "tests/backend/standin/kernel_launch.hpp"

namespace standin {
namespace {

constexpr int kSms = 132;
constexpr int kCapability = 9;
constexpr int kOfNewMemory = 0xA5;  // the value of the bytes of new memory

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t failed(cudaError_t error) { return last_error = error; }

/// Returns true if a parent of this process has started CUDA. CUDA then cannot be used here.
bool parent_has_started() {
  static const pid_t started_by = getpid();
  return started_by != getpid();
}

cudaError_t begin(const char* name) {
  if (parent_has_started()) return failed(cudaErrorInitializationError);
  return begin_call(name) ? failed(cudaErrorUnknown) : cudaSuccess;
}

using StreamHandle = std::shared_ptr<Stream>*;

/// The streams cudaStreamPerThread of a thread, by device.
struct DefaultStreams {
  ~DefaultStreams() {
    for (const auto& [device, stream] : of_device) stream->close();
  }
  std::map<int, std::shared_ptr<Stream>> of_device;
};

Stream& stream_of(cudaStream_t handle) {
  thread_local DefaultStreams defaults;
  if (handle != cudaStreamPerThread) return **reinterpret_cast<StreamHandle>(handle);
  std::shared_ptr<Stream>& stream = defaults.of_device[current_device()];
  if (stream == nullptr) stream = Stream::start(current_device());
  return *stream;
}

cudaError_t give(const char* name, cudaStream_t stream, std::function<void()> operation) {
  if (const cudaError_t error = begin(name); error != cudaSuccess) return error;
  stream_of(stream).give(std::move(operation));
  return cudaSuccess;
}

cudaError_t allocate(const char* name, void** memory, std::size_t bytes) {
  if (const cudaError_t error = begin(name); error != cudaSuccess) return error;
  *memory = std::malloc(bytes);
  if (*memory == nullptr) return failed(cudaErrorMemoryAllocation);
  std::memset(*memory, kOfNewMemory, bytes);
  return cudaSuccess;
}

cudaError_t release(const char* name, void* memory) {
  const cudaError_t error = begin(name);
  wait_for_device(current_device());
  std::free(memory);
  return error;
}

/// A kernel's thread whose clock is the host's clock plus the device's offset.
class RealHere : public Here {
 public:
  RealHere(int device, unsigned block, unsigned blocks)
      : Here(block % kSms, block, blocks), device_(device) {}
  std::uint64_t now() override {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return device_moment(device_, static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
                                      static_cast<std::uint64_t>(time.tv_nsec));
  }
  void nap(unsigned ns) override {
    const timespec time{.tv_sec = 0, .tv_nsec = ns};
    nanosleep(&time, nullptr);
  }

 private:
  int device_;
};

}  // namespace

cudaError_t launch(const Launch& launch, cudaStream_t stream) {
  if (stream_of(stream).device() != current_device()) return failed(cudaErrorInvalidResourceHandle);
  return give("cudaLaunchKernel", stream, [launch, device = current_device()] {
    for (unsigned block = 0; block < launch.blocks; ++block) {
      RealHere here(device, block, launch.blocks);
      launch.kernel->run(here, launch);
    }
  });
}

void no_host_form(const std::string& kernel) {
  std::fprintf(stderr, "stand-in: no host form of kernel %s\n", kernel.c_str());
  std::abort();
}

}  // namespace standin

using standin::begin;
using standin::failed;

extern "C" {

// --- devices

cudaError_t cudaGetDeviceCount(int* count) {
  if (const cudaError_t error = begin("cudaGetDeviceCount"); error != cudaSuccess) return error;
  *count = standin::device_count();
  return *count > 0 ? cudaSuccess : failed(cudaErrorNoDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* facts, int device) {
  if (const cudaError_t error = begin("cudaGetDeviceProperties"); error != cudaSuccess) return error;
  if (device < 0 || device >= standin::device_count()) return failed(cudaErrorInvalidDevice);
  *facts = standin::properties_of(standin::kSms, standin::kCapability, standin::number_on_host(device));
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = standin::kSms;
  return begin("cudaDeviceGetAttribute");
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= standin::device_count()) return failed(cudaErrorInvalidDevice);
  standin::make_current(device);
  return begin("cudaSetDevice");
}

cudaError_t cudaDeviceCanAccessPeer(int* reaches, int, int) {
  *reaches = 1;
  return begin("cudaDeviceCanAccessPeer");
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return begin("cudaDeviceEnablePeerAccess"); }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return begin("cudaDeviceGetStreamPriorityRange");
}

cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  *function = nullptr;
  *found = cudaDriverEntryPointSymbolNotFound;
  return begin("cudaGetDriverEntryPointByVersion");
}

// --- streams and events

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  if (const cudaError_t error = begin("cudaStreamCreateWithPriority"); error != cudaSuccess) return error;
  *stream = reinterpret_cast<cudaStream_t>(
      new std::shared_ptr<standin::Stream>(standin::Stream::start(standin::current_device())));
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const cudaError_t error = begin("cudaStreamDestroy");
  const std::unique_ptr<std::shared_ptr<standin::Stream>> handle(
      reinterpret_cast<standin::StreamHandle>(stream));
  (*handle)->close();
  return error;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (const cudaError_t error = begin("cudaEventCreateWithFlags"); error != cudaSuccess) return error;
  *event = reinterpret_cast<cudaEvent_t>(new standin::Event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<standin::Event*>(event);
  return begin("cudaEventDestroy");
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const auto record = std::make_shared<standin::Record>();
  const cudaError_t error = standin::give("cudaEventRecord", stream, [record] {
    record->passed = true;
    record->passed.notify_all();
  });
  if (error == cudaSuccess) reinterpret_cast<standin::Event*>(event)->set(record);
  return error;
}

/// The backend polls with this function, so a mishap does not count it.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const auto last = reinterpret_cast<standin::Event*>(event)->last();
  return last == nullptr || last->passed ? cudaSuccess : failed(cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const auto last = reinterpret_cast<standin::Event*>(event)->last();
  return standin::give("cudaStreamWaitEvent", stream, [last] {
    if (last != nullptr) last->passed.wait(false);
  });
}

// --- memory

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return standin::allocate("cudaMalloc", memory, bytes);
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return standin::allocate("cudaHostAlloc", memory, bytes);
}

cudaError_t cudaFree(void* memory) { return standin::release("cudaFree", memory); }
cudaError_t cudaFreeHost(void* memory) { return standin::release("cudaFreeHost", memory); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return standin::give("cudaMemcpyAsync", stream, [=] { std::memmove(to, from, bytes); });
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return standin::give("cudaMemsetAsync", stream, [=] { std::memset(to, value, bytes); });
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (const cudaError_t error = begin("cudaMemcpy"); error != cudaSuccess) return error;
  std::memmove(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return std::exchange(standin::last_error, cudaSuccess); }

}  // extern "C"
