// The driver's functions for green contexts, which the runtime returns by name. A device has 132 SMs, and
// partitions have a multiple of eight SMs, as on compute capability 9.0. One split call assigns each SM only
// once, but two calls would assign SMs twice.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/backend/standin/runtime_call.hpp"
#include "tests/backend/standin/world.hpp"

namespace {

using standin::world;

constexpr unsigned kLeastSms = 8;

/// The SMs of a resource. They are stored in the bytes of the resource that the header reserves for the
/// driver.
struct Range {
  int first = 0;
  int count = 0;
};

Range range_of(const CUdevResource& resource) {
  Range range;
  std::memcpy(&range, resource._internal_padding, sizeof(range));
  return range;
}

CUdevResource resource_of(const Range& range) {
  CUdevResource resource{};
  resource.type = CU_DEV_RESOURCE_TYPE_SM;
  resource.sm.smCount = static_cast<unsigned>(range.count);
  resource.sm.minSmPartitionSize = kLeastSms;
  resource.sm.smCoscheduledAlignment = kLeastSms;
  std::memcpy(resource._internal_padding, &range, sizeof(range));
  return resource;
}

/// A green context. It is never freed, so that a use after its destruction can be detected.
struct GreenContext {
  int device;
  std::vector<int> sms;
  bool destroyed = false;
};
std::vector<std::unique_ptr<Range>> descriptions;
std::vector<std::unique_ptr<GreenContext>> contexts;

CUresult in_driver(cudaError_t error) { return error == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN; }

CUresult get_resource(CUdevice, CUdevResource* resource, CUdevResourceType) {
  const CUresult result = in_driver(standin::enter("cuDeviceGetDevResource"));
  *resource = resource_of({0, static_cast<int>(world().all_sms().size())});
  return result;
}

CUresult split(CUdevResource* groups, unsigned* count, const CUdevResource* input, CUdevResource* rest,
               unsigned flags, unsigned least) {
  const CUresult result = in_driver(standin::enter("cuDevSmResourceSplitByCount"));
  if (result != CUDA_SUCCESS) return result;
  if (flags != 0 || input == nullptr || input->type != CU_DEV_RESOURCE_TYPE_SM)
    return CUDA_ERROR_INVALID_VALUE;
  const int each = static_cast<int>((std::max(least, kLeastSms) + kLeastSms - 1) / kLeastSms * kLeastSms);
  const Range all = range_of(*input);
  *count = std::min(*count, static_cast<unsigned>(all.count / each));
  if (world().has_mutant("a partition is not granted")) --*count;
  int next = all.first;
  for (unsigned i = 0; i < *count; ++i, next += each) groups[i] = resource_of({next, each});
  if (rest != nullptr) *rest = resource_of({next, all.first + all.count - next});
  return CUDA_SUCCESS;
}

CUresult describe(CUdevResourceDesc* description, CUdevResource* resource, unsigned count) {
  const CUresult result = in_driver(standin::enter("cuDevResourceGenerateDesc"));
  if (count != 1) return CUDA_ERROR_INVALID_VALUE;
  descriptions.push_back(std::make_unique<Range>(range_of(*resource)));
  *description = reinterpret_cast<CUdevResourceDesc>(descriptions.back().get());
  return result;
}

CUresult create_context(CUgreenCtx* context, CUdevResourceDesc description, CUdevice device, unsigned flags) {
  const CUresult result = in_driver(standin::enter("cuGreenCtxCreate"));
  if (result != CUDA_SUCCESS) return result;
  if (world().has_mutant("green contexts have no flag")) flags = 0;
  if (flags != CU_GREEN_CTX_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
  const auto& range = *reinterpret_cast<Range*>(description);
  std::vector<int> sms(static_cast<std::size_t>(range.count));
  const bool is_spare = range.count < static_cast<int>(kLeastSms);
  const bool is_shared =
      world().has_mutant("partitions share SMs") || (is_spare && world().has_mutant("links share SMs"));
  std::iota(sms.begin(), sms.end(), is_shared ? 0 : range.first);
  contexts.push_back(std::make_unique<GreenContext>(GreenContext{device, std::move(sms)}));
  *context = reinterpret_cast<CUgreenCtx>(contexts.back().get());
  return CUDA_SUCCESS;
}

CUresult create_stream(CUstream* stream, CUgreenCtx context, unsigned flags, int) {
  const CUresult result = in_driver(standin::enter("cuGreenCtxStreamCreate"));
  if (result != CUDA_SUCCESS) return result;
  if (world().has_mutant("green streams have no flag")) flags = 0;
  if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  world().note_allocation();
  const auto& green = *reinterpret_cast<GreenContext*>(context);
  if (green.destroyed) world().defect("a stream of a green context that was destroyed");
  *stream = reinterpret_cast<CUstream>(world().devices.new_stream(green.device, green.sms));
  return CUDA_SUCCESS;
}

CUresult destroy_context(CUgreenCtx context) {
  auto& green = *reinterpret_cast<GreenContext*>(context);
  if (std::exchange(green.destroyed, true)) world().defect("a green context destroyed twice");
  return in_driver(standin::enter("cuGreenCtxDestroy"));
}

CUresult error_name(CUresult, const char** text) {
  *text = "CUDA_ERROR_UNKNOWN";
  return CUDA_SUCCESS;
}

CUresult error_string(CUresult, const char** text) {
  *text = "said the stand-in";
  return CUDA_SUCCESS;
}

template <typename Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                                        unsigned long long flags,
                                                        cudaDriverEntryPointQueryResult* found) {
  constexpr unsigned kFirstWithStreams = 12'050;  // older versions lack cuGreenCtxStreamCreate
  constexpr unsigned kOfThisDriver = 13'000;
  static const std::map<std::string, void*> functions = {
      {"cuDeviceGetDevResource", address_of(get_resource)},
      {"cuDevSmResourceSplitByCount", address_of(split)},
      {"cuDevResourceGenerateDesc", address_of(describe)},
      {"cuGreenCtxCreate", address_of(create_context)},
      {"cuGreenCtxStreamCreate", address_of(create_stream)},
      {"cuGreenCtxDestroy", address_of(destroy_context)},
      {"cuGetErrorName", address_of(error_name)},
      {"cuGetErrorString", address_of(error_string)},
  };
  if (const cudaError_t error = standin::enter("cudaGetDriverEntryPointByVersion"); error != cudaSuccess)
    return error;
  if (flags != cudaEnableDefault) return standin::failed(cudaErrorInvalidValue);
  if (world().has_mutant("driver functions are those of 11.0")) version = 11'000;
  if (version > kOfThisDriver) return standin::failed(cudaErrorInvalidValue);
  const bool is_old = world().has_mutant("the driver is too old") || version < kFirstWithStreams;
  const auto known = is_old ? functions.end() : functions.find(name);
  *function = known == functions.end() ? nullptr : known->second;
  *found = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
