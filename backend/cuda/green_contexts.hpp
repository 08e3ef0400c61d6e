#pragma once
// Divides the SMs of one GPU into partitions, so that several workers compute on one GPU without sharing
// SMs. It uses green contexts (CUDA driver API, "Green Contexts"). workers.cpp decides the number of
// partitions.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "backend/cuda/stream.hpp"

namespace penstock {

/// The device's rules for the sizes of partitions of its SMs (CUdevSmResource).
struct SmRules {
  std::int32_t total = 0;
  std::int32_t least = 1;      ///< smallest number of SMs in a partition
  std::int32_t alignment = 1;  ///< number of which each partition's size must be a multiple
};

struct SmSplit {
  std::int32_t workers = 0;
  std::int32_t sms_each = 0;
  std::int32_t spare = 0;  ///< number of SMs that belong to no worker's partition

  friend bool operator==(const SmSplit&, const SmSplit&) = default;
};

/// Returns a split of the SMs into equal partitions, one for each worker. The partitions are as large as
/// the rules allow. Fails if there are too many workers; the error says how many are possible.
tl::expected<SmSplit, std::string> split_sms(const SmRules& rules, std::int32_t workers);

// Divides the SMs of one GPU into partitions with green contexts (CUDA driver API, "Green Contexts"). Only
// workers.cpp uses it.

/// Returns the device's rules for partitions of its SMs. Fails if the driver has no green contexts.
tl::expected<SmRules, std::string> sm_rules_of(std::int32_t device);

/// The SM partitions of one device. One driver call makes all of them, because two calls would assign the
/// same SMs twice. This object must outlive the streams that it returns.
class GreenContexts {
 public:
  /// Creates an SM partition for each worker of `split`. If possible, creates one more partition of the
  /// remaining SMs. Fails if the driver lacks a function, refuses a call, or grants fewer partitions.
  static tl::expected<GreenContexts, std::string> create(std::int32_t device, const SmSplit& split);

  GreenContexts(GreenContexts&&) noexcept;
  GreenContexts& operator=(GreenContexts&&) noexcept;
  GreenContexts(const GreenContexts&) = delete;
  GreenContexts& operator=(const GreenContexts&) = delete;
  ~GreenContexts();

  /// Returns the number of SMs in each worker's partition, by worker.
  const std::vector<std::int32_t>& granted() const;
  /// Returns the number of SMs in the partition that no worker uses, or 0 if there is none.
  std::int32_t spare() const;
  CudaStream worker_stream(std::int32_t worker) const;
  /// Returns a new stream on the SMs that no worker uses. Requires spare() > 0.
  CudaStream spare_stream() const;

 private:
  struct Parts;
  explicit GreenContexts(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace penstock
