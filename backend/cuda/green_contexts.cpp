// Divides a GPU into partitions. No green context is ever made current, because its streams are sufficient.
// LibTorch's allocator then uses one memory pool for each stream, and not one pool for all workers. The steps
// from the device to a worker's stream:
//
//     all SMs  -- one split -->  a resource each, and the rest  -->  description  -->  context  -->  stream

#include "backend/cuda/green_contexts.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/cuda/cuda_error.hpp"
#include "backend/cuda/driver.hpp"
#include "backend/cuda/sm_split.hpp"
#include "backend/cuda/stream.hpp"

namespace penstock {
namespace {

/// Creates the device's primary context, which must exist before green contexts can be made.
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

  /// Adds a partition of the remaining SMs. If they are too few for a partition, links cannot be emulated,
  /// which is not an error.
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
