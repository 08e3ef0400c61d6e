#pragma once
// Functions of the CUDA driver for green contexts, which the CUDA runtime lacks. The program looks them up
// while it runs, so that it also starts without a driver. Only green_contexts.cpp uses them.

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

/// Looks up the functions. Error: there is no driver, or the driver lacks a function, which the error names.
tl::expected<Driver, std::string> load_driver();

}  // namespace penstock
