#pragma once
// Launches of kernels in both forms of the stand-in: the functions that nvcc's host code calls, and the host
// form of each kernel. Each form of the stand-in defines the kernel's thread and the effect of a launch.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/backend/standin/memory.hpp"

namespace standin {

/// A kernel's thread on the host, for kernel_bodies.hpp. It does the work of its whole block.
class Here {
 public:
  Here(std::uint32_t sm, unsigned block, unsigned blocks) : sm_(sm), block_(block), blocks_(blocks) {}
  virtual ~Here() = default;
  /// Returns the time of %globaltimer.
  virtual std::uint64_t now() = 0;
  virtual void nap(unsigned ns) = 0;

  std::uint32_t sm() const { return sm_; }
  unsigned block() const { return block_; }
  unsigned thread() const { return 0; }
  std::int64_t first() const { return block_; }
  std::int64_t step() const { return blocks_; }

 private:
  std::uint32_t sm_;
  unsigned block_;
  unsigned blocks_;
};

/// A launch with a copy of its arguments.
struct Launch {
  const struct HostKernel* kernel = nullptr;
  unsigned blocks = 1;
  std::vector<std::uint64_t> arguments{};

  template <typename Type>
  Type argument(std::size_t i) const {
    Type value;
    std::memcpy(&value, &arguments[i], sizeof(value));
    return value;
  }
};

/// The host form of a kernel: its arguments, the bytes that it accesses, and its body.
struct HostKernel {
  const char* name;                // base name and parameters: "stamp(unsigned long volatile*)"
  std::vector<std::size_t> sizes;  // the sizes of the arguments
  std::vector<Access> (*accesses)(const Launch&);
  void (*run)(Here&, const Launch&);
};

/// Returns the time of %globaltimer of a device when the host's clock shows `host_ns`. Each device has its
/// own offset and drift.
std::uint64_t device_moment(int device, std::uint64_t host_ns);

// --- each form's own

/// Enqueues the launch on the stream.
cudaError_t launch(const Launch& launch, cudaStream_t stream);
[[noreturn]] void no_host_form(const std::string& kernel);

}  // namespace standin
