#pragma once
// A transformer that is trained on named devices: what its stages cost follows when the number of stages and
// the microbatch are known (prepare/device_prices.hpp).

#include <cstdint>
#include <memory>
#include <optional>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// The model, its training and its machine; `work.micro_batch_size`, `work.ranks` and `work.parallel.data`
/// are set when it is priced.
struct DeviceModel {
  Workload work;
  LayerSplit split;
  std::shared_ptr<const KernelTables> kernels;
  std::int64_t devices = 1;            ///< of the cluster
  std::optional<std::int32_t> copies;  ///< of the pipeline; absent: as many as fill the cluster
  /// `parallel.distributed_optimizer` where it is stated. `work.parallel.sharding` is what it amounts to, as
  /// long as the schedule states no sharding.
  std::optional<bool> distributed_optimizer{};
  bool states_order = false;  ///< `work.parallel.order` is stated, and not the usual one by default

  friend bool operator==(const DeviceModel&, const DeviceModel&) = default;
};

}  // namespace penstock
