#pragma once
// Divides the SMs of one GPU into partitions, so that several workers compute on one GPU without sharing
// SMs. It uses green contexts (CUDA driver API, "Green Contexts"). workers.cpp decides the number of
// partitions.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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

// Assigns hardware to the workers of one process. Each worker gets a GPU. If there are fewer GPUs than
// workers, each worker gets a partition of the first GPU.

/// The stream, and the part of a GPU, that one worker uses.
struct CudaPlace {
  StreamView stream;     ///< stream of the worker's compute actions
  std::int32_t sms = 0;  ///< number of SMs that the worker's kernels can use
  bool whole = true;     ///< true if the worker has a whole device, false if it has a partition
};

/// The GPU workers of a process. This object must outlive all streams that it returns. All threads may use
/// it.
class CudaWorkers {
 public:
  /// Creates `count` workers. Fails if there is no GPU, if there are too few SMs, or if the driver is too
  /// old. Also fails if test kernels find that partitions share SMs.
  static tl::expected<CudaWorkers, std::string> create(std::int32_t count);
  /// Returns a single worker, which has the whole device.
  static CudaWorkers whole_device(std::int32_t device);

  std::int32_t count() const { return static_cast<std::int32_t>(streams_.size()); }
  const CudaPlace& place(std::int32_t worker) const { return places_[static_cast<std::size_t>(worker)]; }
  /// Returns a new stream for the messages of the worker. The stream uses the SMs that belong to no worker,
  /// or the worker's SMs if there are no others.
  CudaStream link_stream(std::int32_t worker) const;
  /// Returns true if links can be emulated without disturbing the workers. This is possible if each worker
  /// has a whole device, or if some SMs belong to no worker.
  bool can_pace_links() const { return !contexts_ || contexts_->spare() > 0; }
  /// Returns a text such as "4 partitions of 32 SMs on NVIDIA H100, 4 SMs left for links".
  std::string description() const { return description_; }

 private:
  static tl::expected<CudaWorkers, std::string> partitions(std::int32_t count, const std::string& name);

  std::optional<GreenContexts> contexts_;  // declared first, so that it is destroyed after the streams
  std::vector<CudaStream> streams_;
  std::vector<CudaPlace> places_;
  std::string description_;
};

/// Runs test blocks on the stream. Returns the numbers of the SMs on which they ran, in ascending order.
std::vector<std::uint32_t> sms_of_stream(const StreamView& stream);

/// Returns a text such as "partitions 0 and 1 both ran on SM 17". Returns an empty text if no SM is in two
/// lists.
std::string shared_sm(const std::vector<std::vector<std::uint32_t>>& of_partitions);

// The GPUs of this machine.

struct CudaDevice {
  std::int32_t number = 0;
  std::string name;
  std::int32_t sm_count = 0;
  std::int32_t major = 0;  ///< major version of the compute capability
  std::int32_t minor = 0;
  std::size_t memory_bytes = 0;
};

/// Returns the GPUs of this machine, at least one. If there is none, the error says why, for example
/// because there is no driver or an old driver. Starts CUDA in this process, so the process must not fork
/// afterwards.
tl::expected<std::vector<CudaDevice>, std::string> cuda_devices();

/// Returns the UUID of a device, which no other GPU of any host has, as nvidia-smi shows it: "GPU-5a...".
/// Starts CUDA in this process.
std::string uuid_of(std::int32_t device);

struct CudaDeviceCount {
  std::int32_t devices = 0;    ///< number of devices, at least 1
  std::int32_t least_sms = 0;  ///< smallest number of SMs of a device
};

/// Returns the number of GPUs and of their SMs. A child process counts them, so this process may still
/// fork. The errors are the same as for cuda_devices(). Requires that this process has no other threads.
tl::expected<CudaDeviceCount, std::string> cuda_device_count_by_child();

}  // namespace penstock
