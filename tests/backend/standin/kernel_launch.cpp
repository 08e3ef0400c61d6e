// What nvcc's host code calls to launch a kernel, and the host's form of each kernel: the lines of
// kernel_bodies.hpp with a clock of their own, from which an operation's time follows. The name of a kernel
// carries a hash of its file, so that base name and parameter list are compared; one without a host form ends
// the run.

#include <cuda_runtime_api.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/cuda/kernel_bodies.hpp"
#include "tests/backend/standin/runtime_call.hpp"
#include "tests/backend/standin/world.hpp"

namespace standin {
namespace {

namespace bodies = penstock::kernel_bodies;

constexpr std::uint64_t kReading = 400;  // ns that a look at the clock takes
constexpr Ns kShortest = 1'000;          // a kernel that does nothing
constexpr double kNsPerByte = 0.004;

/// A kernel's thread on the host. %globaltimer has an offset and a drift of its own on each device.
class Here {
 public:
  Here(int device, std::uint32_t sm, unsigned block) : sm_(sm), block_(block) {
    const auto time = static_cast<std::uint64_t>(world().scheduler.now());
    const auto which = static_cast<std::uint64_t>(device) + 1;
    begin_ = time_ =
        1'700'000'000'000'000'000ULL + which * 5'000'000'123ULL + time + time * which * 2 / 1'000'000;
  }
  std::uint64_t now() { return time_ += kReading; }
  void nap(unsigned ns) { time_ += ns; }
  std::uint32_t sm() const { return sm_; }
  unsigned block() const { return block_; }
  unsigned thread() const { return 0; }
  std::int64_t first() const { return 0; }
  std::int64_t step() const { return 1; }
  Ns taken() const { return static_cast<Ns>(time_ - begin_); }

 private:
  std::uint64_t begin_ = 0;
  std::uint64_t time_ = 0;
  std::uint32_t sm_;
  unsigned block_;
};

/// A launch: its arguments as nvcc passes them, copied.
struct Call {
  Stream* stream;
  unsigned blocks;
  std::vector<std::uint64_t> arguments;

  template <typename Type>
  Type argument(std::size_t i) const {
    Type value;
    std::memcpy(&value, &arguments[i], sizeof(value));
    return value;
  }
  Here here(unsigned block = 0) const {
    return {stream->device, static_cast<std::uint32_t>(stream->sms[block % stream->sms.size()]), block};
  }
};

struct HostKernel {
  std::vector<std::size_t> sizes;  // of the arguments
  std::function<std::vector<Access>(const Call&)> accesses;
  std::function<Ns(const Call&)> run;
};

Ns stamp(const Call& call) {
  Here here = call.here();
  bodies::stamp(here, call.argument<std::uint64_t*>(0));
  return here.taken();
}

Ns hold(const Call& call) {
  Here here = call.here();
  bodies::hold(here, call.argument<std::uint64_t>(0));
  return here.taken();
}

Ns hold_since(const Call& call) {
  Here here = call.here();
  const bool holds = !world().has_mutant("links take no time");
  bodies::hold_since(here, call.argument<const std::uint64_t*>(0),
                     holds ? call.argument<std::uint64_t>(1) : 0, call.argument<std::uint64_t*>(2));
  return here.taken();
}

Ns sm_numbers(const Call& call) {
  Ns longest = 0;
  for (unsigned block = 0; block < call.blocks; ++block) {
    Here here = call.here(block);
    bodies::sm_numbers(here, call.argument<std::uint32_t*>(0));
    longest = std::max(longest, here.taken());
  }
  return longest;
}

Ns count_up(const Call& call) {
  Here here = call.here();
  const auto count = call.argument<std::int64_t>(1);
  bodies::count_up(here, call.argument<double*>(0), count, call.argument<double>(2));
  return static_cast<Ns>(8 * static_cast<double>(count) * kNsPerByte);
}

Ns copy(const Call& call) {
  Here here = call.here();
  const auto words = call.argument<std::int64_t>(2);
  const auto* from = call.argument<const uint4*>(0);
  auto* to = call.argument<uint4*>(1);
  if (!world().memory.already_holds(to, from, static_cast<std::size_t>(words) * sizeof(uint4))) {
    bodies::copy(here, from, to, words);
  }
  return static_cast<Ns>(32 * static_cast<double>(words) * kNsPerByte);
}

/// By base name and parameters: what a kernel's arguments are, which bytes it touches, and what it does.
const std::map<std::string, HostKernel>& host_kernels() {
  constexpr std::size_t kMoment = sizeof(std::uint64_t);
  static const std::map<std::string, HostKernel> kernels = {
      {"stamp(unsigned long volatile*)",
       {{8},
        [](const Call& call) { return std::vector<Access>{{call.argument<void*>(0), kMoment, true}}; },
        stamp}},
      {"hold(unsigned long)", {{8}, [](const Call&) { return std::vector<Access>{}; }, hold}},
      {"hold_since(unsigned long const volatile*, unsigned long, unsigned long volatile*)",
       {{8, 8, 8},
        [](const Call& call) {
          return std::vector<Access>{{call.argument<void*>(0), kMoment, false},
                                     {call.argument<void*>(2), kMoment, true}};
        },
        hold_since}},
      {"sm_numbers(unsigned int*)",
       {{8},
        [](const Call& call) {
          return std::vector<Access>{{call.argument<void*>(0), call.blocks * sizeof(std::uint32_t), true}};
        },
        sm_numbers}},
      {"count_up(double*, long, double)",
       {{8, 8, 8},
        [](const Call& call) {
          const auto bytes = static_cast<std::size_t>(call.argument<std::int64_t>(1)) * sizeof(double);
          return std::vector<Access>{{call.argument<void*>(0), bytes, true}};
        },
        count_up}},
      {"copy(uint4 const*, uint4*, long)",
       {{8, 8, 8},
        [](const Call& call) {
          const auto bytes = static_cast<std::size_t>(call.argument<std::int64_t>(2)) * sizeof(uint4);
          return std::vector<Access>{{call.argument<void*>(0), bytes, false},
                                     {call.argument<void*>(1), bytes, true}};
        },
        copy}},
  };
  return kernels;
}

struct Registered {
  std::string name;  // "stamp(unsigned long volatile*)"
  const HostKernel* kernel = nullptr;
};

/// By the address of nvcc's host function; filled before main().
std::map<const void*, Registered>& registered() {
  static std::map<const void*, Registered> all;
  return all;
}

std::string base_name_of(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                    std::free);
  std::string name = status == 0 ? text.get() : mangled;
  const std::size_t scope = name.rfind("::", name.rfind('('));
  return scope == std::string::npos ? name : name.substr(scope + 2);
}

struct Configuration {
  dim3 grid;
  dim3 block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};
thread_local Configuration configuration;

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* nothing = nullptr;
  return &nothing;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}

void __cudaRegisterFunction(void**, const char* host_function, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  Registered entry{.name = base_name_of(name)};
  const auto found = host_kernels().find(entry.name);
  if (found != host_kernels().end()) entry.kernel = &found->second;
  registered()[host_function] = entry;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, CUstream_st* stream) {
  configuration = {grid, block, shared, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host_function));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3, void** arguments, std::size_t,
                               cudaStream_t stream) {
  if (const cudaError_t error = enter("cudaLaunchKernel"); error != cudaSuccess) return error;
  const Registered& entry = registered().at(kernel);
  if (entry.kernel == nullptr) world().hang(("no host form of kernel " + entry.name).c_str());
  if (world().has_mutant("launches fail in silence") && world().scheduler.random(50) == 0) return cudaSuccess;
  Stream& on = *stream_of(stream);
  if (on.device != this_thread->device) {
    world().defect("a kernel launched on a stream of a device that is not current");
    return failed(cudaErrorInvalidResourceHandle);
  }
  Call call{
      .stream = &on, .blocks = grid.x, .arguments = std::vector<std::uint64_t>(entry.kernel->sizes.size())};
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    std::memcpy(&call.arguments[i], arguments[i], entry.kernel->sizes[i]);
  }
  auto operation = std::make_unique<Operation>();
  operation->name = entry.name.c_str();
  operation->accesses = entry.kernel->accesses(call);
  operation->run = [run = &entry.kernel->run, call] { return std::max(kShortest, (*run)(call)); };
  world().devices.give(on, std::move(operation));
  return cudaSuccess;
}

}  // extern "C"
