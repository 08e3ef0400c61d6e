#pragma once
// A transformer that is trained on named devices. prepare/device_prices.hpp computes the costs of its stages
// when the number of stages and the microbatch size are known.

#include <cstdint>
#include <memory>
#include <optional>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// The model, its training and its machine. `work.micro_batch_size`, `work.ranks` and `work.parallel.data`
/// are set when the model is priced.
struct DeviceModel {
  Workload work;
  LayerSplit split;
  std::shared_ptr<const KernelTables> kernels;
  std::int64_t devices = 1;  ///< the number of devices of the cluster
  /// The copies of the pipeline. If absent, there are as many copies as fill the cluster.
  std::optional<std::int32_t> copies;
  /// The stated `parallel.distributed_optimizer`; absent if the scenario does not state it.
  /// `work.parallel.sharding` follows from it, unless the schedule states the sharding.
  std::optional<bool> distributed_optimizer{};
  bool states_order = false;  ///< true if the scenario states `work.parallel.order`

  friend bool operator==(const DeviceModel&, const DeviceModel&) = default;
};

}  // namespace penstock
