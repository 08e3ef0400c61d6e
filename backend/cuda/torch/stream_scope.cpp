// LibTorch uses the stream in a thread-local variable. A guard sets the variable to the worker's stream and
// later restores it. cuBLAS chooses kernels by the number of SMs, so it must know the size of the partition.

#include "backend/cuda/torch/stream_scope.hpp"

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/core/Device.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cublas_api.h>

#include "backend/cuda/workers.hpp"

namespace penstock::nn {
namespace {

/// Sets the number of SMs for which cuBLAS chooses kernels. LibTorch has one cuBLAS handle for each thread
/// and stream. Setting the number again takes no measurable time.
void count_on(std::int32_t sms) {
  const cublasStatus_t status = cublasSetSmCountTarget(at::cuda::getCurrentCUDABlasHandle(), sms);
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string("cublasSetSmCountTarget: ") + cublasGetStatusString(status));
}

}  // namespace

struct StreamScope::Guard {
  explicit Guard(const CudaPlace& place)
      : stream(c10::cuda::getStreamFromExternal(place.stream.stream,
                                                static_cast<c10::DeviceIndex>(place.stream.device))) {}
  c10::cuda::CUDAStreamGuard stream;
};

StreamScope::StreamScope(const CudaPlace& place) : guard_(std::make_unique<Guard>(place)) {
  if (!place.whole) count_on(place.sms);
}

StreamScope::~StreamScope() = default;

}  // namespace penstock::nn
