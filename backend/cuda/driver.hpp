#pragma once
// The functions of the driver that the runtime has no counterpart of: green contexts. They are looked up when
// the program runs, so that it starts where there is no driver, too. Private to green_contexts.cpp.

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

  /// Throws CudaError when `result`, which `call` returned, is not CUDA_SUCCESS.
  void check(CUresult result, const char* call) const;
};

/// Error: which function this machine's driver lacks, or that there is none.
tl::expected<Driver, std::string> load_driver();

}  // namespace penstock
