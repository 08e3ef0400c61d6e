#pragma once
// Driver functions for green contexts, which the runtime lacks. They are looked up while the program runs, so
// that it also starts without a driver. Used only by green_contexts.cpp.

#include <string>
#include <tl/expected.hpp>

#include <cuda.h>

namespace penstock {

struct Driver {
  decltype(&cuDeviceGetDevResource) resource_of_device = nullptr;
  decltype(&cuDevSmResourceSplitByCount) split_by_count = nullptr;
  decltype(&cuDevResourceGenerateDesc) description_of = nullptr;
  decltype(&cuGreenCtxCreate) create_context = nullptr;
  decltype(&cuGreenCtxStreamCreate) create_stream = nullptr;
  decltype(&cuGreenCtxDestroy) destroy_context = nullptr;
  decltype(&cuGetErrorName) error_name = nullptr;
  decltype(&cuGetErrorString) error_string = nullptr;

  /// Throws CudaError if `result`, which `call` returned, is not CUDA_SUCCESS.
  void check(CUresult result, const char* call) const;
};

/// Loads the functions. Error: which function this machine's driver lacks, or that there is no driver.
tl::expected<Driver, std::string> load_driver();

}  // namespace penstock
