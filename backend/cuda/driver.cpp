// Looks up functions of the CUDA driver. Green contexts (parts of a GPU's SMs with their own streams) exist
// only in the driver's API. The functions are looked up by name and version with
// cudaGetDriverEntryPointByVersion and are not linked. The program therefore starts on machines without a
// driver and can report what is missing.

#include "backend/cuda/driver.hpp"

#include <optional>
#include <string>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <driver_types.h>
#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/cuda/cuda_error.hpp"

namespace penstock {
namespace {

// The CUDA version that the functions must behave like, 13.0, as in cuda.h.
constexpr unsigned kVersion = 13000;

/// Stores the driver's function `name` in `function`. Returns an error text if it was not found.
template <typename Function>
std::optional<std::string> look_up(const char* name, Function& function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t result =
      cudaGetDriverEntryPointByVersion(name, &address, kVersion, cudaEnableDefault, &found);
  if (result != cudaSuccess) return in_words(result, fmt::format("looking for {} in the driver", name));
  if (found != cudaDriverEntryPointSuccess || address == nullptr) {
    return fmt::format("the driver has no {}: green contexts need one of CUDA 13.0 or newer", name);
  }
  function = reinterpret_cast<Function>(address);
  return std::nullopt;
}

}  // namespace

void Driver::check(CUresult result, const char* call) const {
  if (result == CUDA_SUCCESS) return;
  const char* name = "an unknown error";
  const char* meaning = "";
  error_name(result, &name);
  error_string(result, &meaning);
  throw CudaError(call, result, name, meaning);
}

tl::expected<Driver, std::string> load_driver() {
  Driver driver;
  for (const auto& missing :
       {look_up("cuDeviceGetDevResource", driver.resource_of_device),
        look_up("cuDevSmResourceSplitByCount", driver.split_by_count),
        look_up("cuDevResourceGenerateDesc", driver.description_of),
        look_up("cuGreenCtxCreate", driver.create_context),
        look_up("cuGreenCtxStreamCreate", driver.create_stream),
        look_up("cuGreenCtxDestroy", driver.destroy_context), look_up("cuGetErrorName", driver.error_name),
        look_up("cuGetErrorString", driver.error_string)}) {
    if (missing) return tl::unexpected(*missing);
  }
  return driver;
}

}  // namespace penstock
