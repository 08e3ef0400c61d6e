// The functions that nvcc's host code calls to launch a kernel, and the host form of each kernel
// (kernel_bodies.hpp). The name of a kernel contains a hash of its file, so only the base name and the
// parameter list are compared. A kernel without a host form ends the run.

#include "tests/backend/standin/kernel_launch.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "backend/cuda/kernel_bodies.hpp"

namespace standin {
namespace {

namespace bodies = penstock::kernel_bodies;

constexpr std::size_t kMoment = sizeof(std::uint64_t);

std::vector<Access> nothing(const Launch&) { return {}; }

void stamp(Here& here, const Launch& launch) { bodies::stamp(here, launch.argument<std::uint64_t*>(0)); }
std::vector<Access> moment_of(const Launch& launch) { return {{launch.argument<void*>(0), kMoment, true}}; }

void hold(Here& here, const Launch& launch) { bodies::hold(here, launch.argument<std::uint64_t>(0)); }

void hold_since(Here& here, const Launch& launch) {
  bodies::hold_since(here, launch.argument<const std::uint64_t*>(0), launch.argument<std::uint64_t>(1),
                     launch.argument<std::uint64_t*>(2));
}
std::vector<Access> both_moments(const Launch& launch) {
  return {{launch.argument<void*>(0), kMoment, false}, {launch.argument<void*>(2), kMoment, true}};
}

void sm_numbers(Here& here, const Launch& launch) {
  bodies::sm_numbers(here, launch.argument<std::uint32_t*>(0));
}
std::vector<Access> number_of_each_block(const Launch& launch) {
  return {{launch.argument<void*>(0), launch.blocks * sizeof(std::uint32_t), true}};
}

void count_up(Here& here, const Launch& launch) {
  bodies::count_up(here, launch.argument<double*>(0), launch.argument<std::int64_t>(1),
                   launch.argument<double>(2));
}
std::vector<Access> all_numbers(const Launch& launch) {
  const auto bytes = static_cast<std::size_t>(launch.argument<std::int64_t>(1)) * sizeof(double);
  return {{launch.argument<void*>(0), bytes, true}};
}

void copy(Here& here, const Launch& launch) {
  bodies::copy(here, launch.argument<const uint4*>(0), launch.argument<uint4*>(1),
               launch.argument<std::int64_t>(2));
}
std::vector<Access> both_sides(const Launch& launch) {
  const auto bytes = static_cast<std::size_t>(launch.argument<std::int64_t>(2)) * sizeof(uint4);
  return {{launch.argument<void*>(0), bytes, false}, {launch.argument<void*>(1), bytes, true}};
}

/// Returns the entry of a kernel: the sizes of its arguments, the bytes that it accesses, and its body.
const HostKernel* host_kernel(const std::string& name) {
  static const std::array<HostKernel, 6> kernels = {{
      {"stamp(unsigned long volatile*)", {8}, moment_of, stamp},
      {"hold(unsigned long)", {8}, nothing, hold},
      {"hold_since(unsigned long const volatile*, unsigned long, unsigned long volatile*)",
       {8, 8, 8},
       both_moments,
       hold_since},
      {"sm_numbers(unsigned int*)", {8}, number_of_each_block, sm_numbers},
      {"count_up(double*, long, double)", {8, 8, 8}, all_numbers, count_up},
      {"copy(uint4 const*, uint4*, long)", {8, 8, 8}, both_sides, copy},
  }};
  const auto* found =
      std::ranges::find_if(kernels, [&](const HostKernel& kernel) { return kernel.name == name; });
  return found == kernels.end() ? nullptr : found;
}

struct Registered {
  std::string name;  // "stamp(unsigned long volatile*)"
  const HostKernel* kernel = nullptr;
};

/// Returns all kernels, by the address of nvcc's host function. They are registered before main().
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

/// The values between the angle brackets of a launch. nvcc's code pushes them, and pops them directly before
/// the launch.
struct Configuration {
  dim3 grid;
  dim3 block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};
thread_local Configuration configuration;

}  // namespace

std::uint64_t device_moment(int device, std::uint64_t host_ns) {
  const auto which = static_cast<std::uint64_t>(device) + 1;
  return 1'700'000'000'000'000'000ULL + which * 5'000'000'123ULL + host_ns + host_ns * which * 2 / 1'000'000;
}

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
  const std::string base_name = base_name_of(name);
  registered()[host_function] = {.name = base_name, .kernel = host_kernel(base_name)};
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
  const Registered& entry = registered().at(kernel);
  if (entry.kernel == nullptr) no_host_form(entry.name);
  Launch given{.kernel = entry.kernel,
               .blocks = grid.x,
               .arguments = std::vector<std::uint64_t>(entry.kernel->sizes.size())};
  for (std::size_t i = 0; i < given.arguments.size(); ++i) {
    std::memcpy(&given.arguments[i], arguments[i], entry.kernel->sizes[i]);
  }
  return launch(given, stream);
}

}  // extern "C"
