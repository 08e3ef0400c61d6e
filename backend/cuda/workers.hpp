#pragma once
// The hardware of the workers of one process: a GPU for each, or, with fewer GPUs, partitions of one.

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
  StreamView stream;     ///< stream of its compute actions
  std::int32_t sms = 0;  ///< number of SMs that its kernels can use
  bool whole = true;     ///< it has the whole device; false: a partition
};

/// The workers of a process. It must outlive all streams that it lends. All threads may use it.
class CudaWorkers {
 public:
  /// Creates the workers. Error: why this machine cannot hold so many: no GPU, too few SMs, an old driver, or
  /// partitions that share SMs, as kernels on them have reported.
  static tl::expected<CudaWorkers, std::string> create(std::int32_t count);
  /// Returns one worker, which has a whole device.
  static CudaWorkers whole_device(std::int32_t device);

  std::int32_t count() const { return static_cast<std::int32_t>(streams_.size()); }
  const CudaPlace& place(std::int32_t worker) const { return places_[static_cast<std::size_t>(worker)]; }
  /// Returns a new stream for messages of the worker: on the SMs that no worker has, otherwise on the
  /// worker's.
  CudaStream link_stream(std::int32_t worker) const;
  /// Returns whether emulated links can run on SMs that no worker needs: each worker has a whole device, or
  /// SMs are left.
  bool can_pace_links() const { return !contexts_ || contexts_->spare() > 0; }
  /// Returns, for example, "4 partitions of 32 SMs on NVIDIA H100, 4 SMs left for links".
  std::string description() const { return description_; }

 private:
  static tl::expected<CudaWorkers, std::string> partitions(std::int32_t count, const std::string& name);

  std::optional<GreenContexts> contexts_;  // destroyed after the streams
  std::vector<CudaStream> streams_;
  std::vector<CudaPlace> places_;
  std::string description_;
};

/// Returns the SMs on which blocks of the stream have run, ascending.
std::vector<std::uint32_t> sms_of_stream(const StreamView& stream);

/// Returns, for example, "partitions 0 and 1 both ran on SM 17"; empty if no two lists share an SM.
std::string shared_sm(const std::vector<std::vector<std::uint32_t>>& of_partitions);

}  // namespace penstock
