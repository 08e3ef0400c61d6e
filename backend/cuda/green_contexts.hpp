#pragma once
// Green contexts: partitions of one GPU's SMs (CUDA driver API, "Green Contexts"). Private to workers.cpp.

#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/cuda/sm_split.hpp"
#include "backend/cuda/stream.hpp"

namespace penstock {

/// What the device says of its SMs. Error: the driver has no green contexts.
tl::expected<SmRules, std::string> sm_rules_of(std::int32_t device);

/// Partitions that were made by one call: two calls would hand out the same SMs twice. Outlives its streams.
class GreenContexts {
 public:
  /// Partitions of the split, and one more of what is left where that can be had. Error: what the driver
  /// lacks or refuses, or that it granted fewer partitions.
  static tl::expected<GreenContexts, std::string> create(std::int32_t device, const SmSplit& split);

  GreenContexts(GreenContexts&&) noexcept;
  GreenContexts& operator=(GreenContexts&&) noexcept;
  GreenContexts(const GreenContexts&) = delete;
  GreenContexts& operator=(const GreenContexts&) = delete;
  ~GreenContexts();

  /// SMs that each worker's partition was granted.
  const std::vector<std::int32_t>& granted() const;
  /// Of the partition of what is left; 0: there is none.
  std::int32_t spare() const;
  CudaStream worker_stream(std::int32_t worker) const;
  /// Requires spare() > 0.
  CudaStream spare_stream() const;

 private:
  struct Parts;
  explicit GreenContexts(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace penstock
