// The functions of cuBLAS that gpu_validation calls. A matrix product takes a stated time, which becomes
// shorter with more SMs. Only the first number of the product is computed, because no code reads the product.

#include <cublas_v2.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/backend/standin/runtime_call.hpp"
#include "tests/backend/standin/world.hpp"

namespace {

using standin::world;

constexpr double kFlopsPerNsAndSm = 50;
constexpr double kSlowerBeside = 1.08;  // a product beside those of other partitions, which share the memory

struct Handle {
  standin::Stream* stream = nullptr;
  int sms = 0;  // 0 means all SMs of the stream
  bool destroyed = false;
};

/// Returns all handles. They are never destroyed.
std::vector<std::unique_ptr<Handle>>& handles() {
  static std::vector<std::unique_ptr<Handle>> all;
  return all;
}

Handle& of(cublasHandle_t handle) {
  auto& found = *reinterpret_cast<Handle*>(handle);
  if (found.destroyed) world().defect("a call on a handle of cuBLAS that was destroyed");
  return found;
}

cublasStatus_t in_blas(cudaError_t error) {
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

standin::Ns time_of_product(const Handle& handle, double flops) {
  const std::size_t all = handle.stream->sms.size();
  const std::size_t sms =
      handle.sms > 0 ? std::min<std::size_t>(all, static_cast<std::size_t>(handle.sms)) : all;
  return static_cast<standin::Ns>(flops / (kFlopsPerNsAndSm * static_cast<double>(sms)));
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  const cublasStatus_t status = in_blas(standin::enter("cublasCreate"));
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  world().note_allocation();
  handles().push_back(std::make_unique<Handle>());
  *handle = reinterpret_cast<cublasHandle_t>(handles().back().get());
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  const cublasStatus_t status = in_blas(standin::enter("cublasDestroy"));
  of(handle).destroyed = true;
  return status;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  of(handle).stream = standin::stream_of(stream);
  return in_blas(standin::enter("cublasSetStream"));
}

cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int sms) {
  if (!world().has_mutant("cuBLAS is not told its SMs")) of(handle).sms = sms;
  return in_blas(standin::enter("cublasSetSmCountTarget"));
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t, cublasOperation_t, int m, int n,
                              int k, const float* alpha, const float* a, int lda, const float* b, int ldb,
                              const float* beta, float* c, int ldc) {
  const cublasStatus_t status = in_blas(standin::enter("cublasSgemm"));
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const auto bytes = [](int leading, int columns) {
    return static_cast<std::size_t>(leading) * static_cast<std::size_t>(columns) * sizeof(float);
  };
  if (m <= 0 || n <= 0 || k <= 0 || lda < m || ldb < k || ldc < m) return CUBLAS_STATUS_INVALID_VALUE;
  const auto sms = static_cast<int>(of(handle).stream->sms.size());
  if (sms < world().setting.sms && of(handle).sms != sms)
    world().defect("cuBLAS chooses kernels for more SMs than its stream has");
  auto operation = std::make_unique<standin::Operation>();
  operation->name = "cublasSgemm";
  operation->accesses = {{a, bytes(lda, k), false}, {b, bytes(ldb, n), false}, {c, bytes(ldc, n), true}};
  operation->run = [=, stream = of(handle).stream, alone = time_of_product(of(handle), 2.0 * m * n * k),
                    alpha = *alpha, beta = *beta] {
    const double slower = world().devices.runs_beside(*stream, "cublasSgemm") ? kSlowerBeside : 1;
    const auto takes = static_cast<standin::Ns>(slower * static_cast<double>(alone));
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[static_cast<std::ptrdiff_t>(i) * lda] * b[i];
    c[0] = alpha * sum + (beta == 0 ? 0 : beta * c[0]);
    return takes;
  };
  world().devices.give(*of(handle).stream, std::move(operation));
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusString(cublasStatus_t) { return "said the stand-in"; }

}  // extern "C"
