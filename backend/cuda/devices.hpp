#pragma once
// The GPUs of this machine.

#include <cstddef>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace penstock {

struct CudaDevice {
  std::int32_t number = 0;
  std::string name;
  std::int32_t sm_count = 0;
  std::int32_t major = 0;  ///< major version of the compute capability
  std::int32_t minor = 0;
  std::size_t memory_bytes = 0;
};

/// Returns the devices, at least one. Error: why there is no device, for example no driver or an old driver.
/// Starts CUDA in this process, which must therefore not fork afterwards.
tl::expected<std::vector<CudaDevice>, std::string> cuda_devices();

/// Returns the number of devices. A child process counts them, so this process may still fork. Error: like
/// cuda_devices(). Requires that this process has no other threads.
tl::expected<std::int32_t, std::string> cuda_device_count_by_child();

}  // namespace penstock
