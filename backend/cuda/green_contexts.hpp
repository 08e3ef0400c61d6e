#pragma once
// Green contexts: partitions of one GPU's SMs (CUDA driver API, "Green Contexts"). Used only by workers.cpp.

#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/cuda/sm_split.hpp"
#include "backend/cuda/stream.hpp"

namespace penstock {

/// Returns the device's rules for splitting its SMs. Error: the driver has no green contexts.
tl::expected<SmRules, std::string> sm_rules_of(std::int32_t device);

/// Partitions of one device, made by one call, because two calls would hand out the same SMs twice. It must
/// outlive its streams.
class GreenContexts {
 public:
  /// Creates the partitions of the split, and one more of the remaining SMs if possible. Error: what the
  /// driver lacks or refuses, or that it granted fewer partitions.
  static tl::expected<GreenContexts, std::string> create(std::int32_t device, const SmSplit& split);

  GreenContexts(GreenContexts&&) noexcept;
  GreenContexts& operator=(GreenContexts&&) noexcept;
  GreenContexts(const GreenContexts&) = delete;
  GreenContexts& operator=(const GreenContexts&) = delete;
  ~GreenContexts();

  /// Returns the number of SMs that each worker's partition was granted.
  const std::vector<std::int32_t>& granted() const;
  /// Returns the number of SMs in the partition of the remaining SMs; 0 if there is none.
  std::int32_t spare() const;
  CudaStream worker_stream(std::int32_t worker) const;
  /// Returns a new stream on the remaining SMs. Requires spare() > 0.
  CudaStream spare_stream() const;

 private:
  struct Parts;
  explicit GreenContexts(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace penstock
