// Partitions a GPU among workers with green contexts. No green context is ever made current, because its
// streams are sufficient. LibTorch's allocator then has one memory pool for each stream. With the null
// stream of each context, all workers would share one pool. The steps from the device to a worker's
// stream:
//
//     all SMs  -- one split -->  a resource each, and the rest  -->  description  -->  context  -->  stream
//
// Compute capability 9.0 requires partitions of at least 8 SMs and a multiple of 8 (CUDA 13.0, cuda.h,
// cuDevSmResourceSplitByCount). For example, 132 SMs can be divided into 2 x 64, 4 x 32, 8 x 16 or 16 x 8
// SMs, and 4 SMs remain.

#include "backend/cuda/workers.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <driver_types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/cuda/stream.hpp"

namespace penstock {

tl::expected<SmSplit, std::string> split_sms(const SmRules& rules, std::int32_t workers) {
  const std::int32_t step = std::max(rules.alignment, 1);
  const std::int32_t least = std::max((rules.least + step - 1) / step * step, step);
  const std::int32_t each = workers > 0 ? rules.total / workers / step * step : 0;
  if (each < least) {
    return tl::unexpected(fmt::format(
        "{} workers do not fit on a GPU of {} SMs, whose partitions have {} or more and a multiple of {}: "
        "take at most {}, or as many GPUs as workers",
        workers, rules.total, least, step, rules.total / least));
  }
  return SmSplit{.workers = workers, .sms_each = each, .spare = rules.total - workers * each};
}

// Functions of the CUDA driver for green contexts, which the CUDA runtime does not have.

struct Driver {
  decltype(&cuDeviceGetDevResource) resource_of_device = nullptr;
  decltype(&cuDevSmResourceSplitByCount) split_by_count = nullptr;
  decltype(&cuDevResourceGenerateDesc) description_of = nullptr;
  decltype(&cuGreenCtxCreate) create_context = nullptr;
  decltype(&cuGreenCtxStreamCreate) create_stream = nullptr;
  decltype(&cuGreenCtxDestroy) destroy_context = nullptr;
  decltype(&cuGetErrorName) error_name = nullptr;
  decltype(&cuGetErrorString) error_string = nullptr;

  /// Throws CudaError if the driver function `call` failed, that is, if its `result` is not CUDA_SUCCESS.
  void check(CUresult result, const char* call) const;
};

/// Looks up the functions of the CUDA driver. Returns an error if there is no driver, or if the driver
/// lacks a function. The message names the function.
tl::expected<Driver, std::string> load_driver();

// Looks up functions of the CUDA driver by name and version with cudaGetDriverEntryPointByVersion. They are
// not linked, so that the program starts on machines without a driver and can report what is missing.

namespace {

// The CUDA version of the functions, as in cuda.h: 13.0.
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

// Divides a GPU into partitions. The steps from the device to a worker's stream:
//
//     all SMs  -- one split -->  a resource each, and the rest  -->  description  -->  context  -->  stream

namespace {

/// Creates the device's primary context. It must exist before green contexts can be created.
void start_device(std::int32_t device) {
  use_device(device);
  check_cuda(cudaFree(nullptr), "cudaFree");
}

CUdevResource sms_of(const Driver& driver, std::int32_t device) {
  CUdevResource all{};
  driver.check(driver.resource_of_device(device, &all, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
  return all;
}

}  // namespace

struct GreenContexts::Parts {
  Driver driver;
  std::int32_t device = 0;
  // The contexts of the workers, followed by the context of the remaining SMs if there is one.
  std::vector<CUgreenCtx> contexts{};
  std::vector<std::int32_t> granted{};
  std::int32_t spare = 0;

  Parts(const Driver& functions, std::int32_t number) : driver(functions), device(number) {}
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    for (CUgreenCtx context : contexts) driver.destroy_context(context);
  }

  void add(CUdevResource resource) {
    CUdevResourceDesc description = nullptr;
    driver.check(driver.description_of(&description, &resource, 1), "cuDevResourceGenerateDesc");
    CUgreenCtx context = nullptr;
    driver.check(driver.create_context(&context, description, device, CU_GREEN_CTX_DEFAULT_STREAM),
                 "cuGreenCtxCreate");
    contexts.push_back(context);
  }

  /// Adds a partition of the SMs that no worker uses. Emulated links run their kernels there. If too few
  /// SMs remain for a partition, links cannot be emulated, which is not an error.
  void add_spare(const CUdevResource& rest) {
    if (rest.sm.smCount == 0) return;
    try {
      add(rest);
      spare = static_cast<std::int32_t>(rest.sm.smCount);
    } catch (const CudaError&) {
      spare = 0;
    }
  }

  CudaStream stream_of(std::size_t context) const {
    CUstream stream = nullptr;
    driver.check(driver.create_stream(&stream, contexts.at(context), CU_STREAM_NON_BLOCKING, 0),
                 "cuGreenCtxStreamCreate");
    return {device, stream};
  }
};

GreenContexts::GreenContexts(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
GreenContexts::GreenContexts(GreenContexts&&) noexcept = default;
GreenContexts& GreenContexts::operator=(GreenContexts&&) noexcept = default;
GreenContexts::~GreenContexts() = default;

tl::expected<SmRules, std::string> sm_rules_of(std::int32_t device) {
  const auto driver = load_driver();
  if (!driver) return tl::unexpected(driver.error());
  start_device(device);
  const CUdevResource all = sms_of(*driver, device);
  return SmRules{.total = static_cast<std::int32_t>(all.sm.smCount),
                 .least = static_cast<std::int32_t>(all.sm.minSmPartitionSize),
                 .alignment = static_cast<std::int32_t>(all.sm.smCoscheduledAlignment)};
}

tl::expected<GreenContexts, std::string> GreenContexts::create(std::int32_t device, const SmSplit& split) {
  const auto driver = load_driver();
  if (!driver) return tl::unexpected(driver.error());
  start_device(device);
  const CUdevResource all = sms_of(*driver, device);
  std::vector<CUdevResource> groups(static_cast<std::size_t>(split.workers));
  CUdevResource rest{};
  auto count = static_cast<unsigned>(split.workers);
  driver->check(
      driver->split_by_count(groups.data(), &count, &all, &rest, 0, static_cast<unsigned>(split.sms_each)),
      "cuDevSmResourceSplitByCount");
  // The driver may grant fewer partitions than requested. It returns their number in `count`.
  if (count < groups.size()) {
    return tl::unexpected(fmt::format("asked for {} partitions of {} SMs, the driver granted {}",
                                      groups.size(), split.sms_each, count));
  }
  auto parts = std::make_unique<Parts>(*driver, device);
  for (const CUdevResource& group : groups) {
    parts->add(group);
    parts->granted.push_back(static_cast<std::int32_t>(group.sm.smCount));
  }
  parts->add_spare(rest);
  return GreenContexts(std::move(parts));
}

const std::vector<std::int32_t>& GreenContexts::granted() const { return parts_->granted; }
std::int32_t GreenContexts::spare() const { return parts_->spare; }
CudaStream GreenContexts::worker_stream(std::int32_t worker) const {
  return parts_->stream_of(static_cast<std::size_t>(worker));
}
CudaStream GreenContexts::spare_stream() const { return parts_->stream_of(parts_->granted.size()); }

}  // namespace penstock
