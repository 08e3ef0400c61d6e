#pragma once
// What is priced: a model, how it is trained, on which devices and how it is shared out over them.

#include <cstdint>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/gemm_model.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_recompute.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "topology/device_types.hpp"

namespace penstock {

/// One training step's parts, all but the schedule. Requires degrees that divide what they share out.
struct Workload {
  Architecture model;
  std::int64_t sequence = 1;  ///< tokens of a sample
  std::int64_t micro_batch_size = 1;
  Parallel parallel;
  std::int32_t ranks = 1;  ///< of one pipeline
  DeviceType device;
  GemmPrecision precision = GemmPrecision::bf16;
  LayerRecompute recompute = LayerRecompute::none;
  std::int32_t gradient_bytes = 4;  ///< a parameter
  /// What the optimizer holds a parameter: Adam with copies of the weights in 4 bytes has 12.
  std::int32_t optimizer_bytes = 12;
  /// What a layer of experts takes, both ways, beside all terms that are known: read off DeepSeek-V2's steps
  /// on B200 (SimuMax; 2 to 3 ms), where no kernel of the account explains it.
  double unexplained_expert_seconds = 2.5e-3;
  double host_layer_seconds = 0;  ///< least time of a layer's forward and backward together, by the host
  bool deferred_head = false;     ///< the head's weight gradient is computed once, at the end of the step

  friend bool operator==(const Workload&, const Workload&) = default;

  /// Tokens of a microbatch on one device of a rank.
  double tokens() const { return static_cast<double>(micro_batch_size * sequence) / parallel.context; }
};

/// Dense operations a second of the device at a precision; 0 where it has no such units.
double peak_flops(const DeviceType& device, GemmPrecision precision);
/// What models of its products ask of the device.
DeviceRates rates_of(const DeviceType& device, GemmPrecision precision);
/// The device's sustained factor in a run of the workload's precision, for products of any: it is power that
/// slows them.
double sustained_factor(const Workload& work);

}  // namespace penstock
