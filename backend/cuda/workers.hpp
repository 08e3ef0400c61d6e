#pragma once
// Where the workers of one process compute: each on a GPU of its own, or, where there are fewer, all in
// partitions of one.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/cuda/green_contexts.hpp"
#include "backend/cuda/stream.hpp"

namespace penstock {

/// One worker's part of the hardware.
struct CudaPlace {
  StreamView stream;     ///< its compute queue
  std::int32_t sms = 0;  ///< that its kernels can use
  bool whole = true;     ///< the whole device, not a partition
};

/// Outlives all streams that it lends. For all threads.
class CudaWorkers {
 public:
  /// Error: why this machine cannot hold so many: no GPU, too few SMs, an old driver, or partitions that
  /// share SMs, which a kernel on each has found out.
  static tl::expected<CudaWorkers, std::string> create(std::int32_t count);
  /// One worker, which has all of one device.
  static CudaWorkers whole_device(std::int32_t device);

  std::int32_t count() const { return static_cast<std::int32_t>(streams_.size()); }
  const CudaPlace& place(std::int32_t worker) const { return places_[static_cast<std::size_t>(worker)]; }
  /// A new stream for what leaves the worker: in the SMs that no worker has, or else where the worker is.
  CudaStream link_stream(std::int32_t worker) const;
  /// SMs hold the emulated links, so that these take no worker's: a device a worker, or SMs that are left.
  bool can_pace_links() const { return !contexts_ || contexts_->spare() > 0; }
  /// "4 partitions of 32 SMs on NVIDIA H100, 4 SMs left for links".
  std::string description() const { return description_; }

 private:
  static tl::expected<CudaWorkers, std::string> partitions(std::int32_t count, const std::string& name);

  std::optional<GreenContexts> contexts_;  // before the streams: they end first
  std::vector<CudaStream> streams_;
  std::vector<CudaPlace> places_;
  std::string description_;
};

/// The SMs that blocks on a stream were seen to run on, ascending.
std::vector<std::uint32_t> sms_of_stream(const StreamView& stream);

/// "partitions 0 and 1 both ran on SM 17"; empty when no two lists have an SM in common.
std::string shared_sm(const std::vector<std::vector<std::uint32_t>>& of_partitions);

}  // namespace penstock
