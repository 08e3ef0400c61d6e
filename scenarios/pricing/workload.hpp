#pragma once
// The subject of pricing: a model, its training, its devices and how it is divided among them.

#include <cstdint>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/gemm_model.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_recompute.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "topology/device_types.hpp"

namespace penstock {

/// One training step without its schedule. Requires degrees that divide what they share.
struct Workload {
  Architecture model;
  /// The tokens of a sample.
  std::int64_t sequence = 1;
  std::int64_t micro_batch_size = 1;
  Parallel parallel;
  /// The ranks of one pipeline.
  std::int32_t ranks = 1;
  DeviceType device;
  GemmPrecision precision = GemmPrecision::bf16;
  LayerRecompute recompute = LayerRecompute::none;
  /// The bytes of a gradient for each parameter.
  std::int32_t gradient_bytes = 4;
  /// The bytes of the optimizer's state for each parameter. Adam with copies of the weights in 4 bytes needs
  /// 12.
  std::int32_t optimizer_bytes = 12;
  /// The time of a layer of experts, both passes together, that no known term explains. It belongs to a
  /// device and a release of the software, so it is 0 until it is stated or fitted.
  double unexplained_expert_seconds = 0;
  /// The least time of a layer's forward and backward together, because the host launches its kernels.
  double host_layer_seconds = 0;
  /// True if the head's weight gradient is computed once, at the end of the step.
  bool deferred_head = false;

  friend bool operator==(const Workload&, const Workload&) = default;

  /// Returns the tokens of a microbatch on one device of a rank.
  double tokens() const { return static_cast<double>(micro_batch_size * sequence) / parallel.context; }
};

/// Returns the dense operations a second of the device at a precision; 0 if it has no such units.
double peak_flops(const DeviceType& device, GemmPrecision precision);
/// Returns the rates that models of the device's products need.
DeviceRates rates_of(const DeviceType& device, GemmPrecision precision);
/// Returns the device's sustained factor in a run of the workload's precision. It applies to products of all
/// precisions, because power causes it.
double sustained_factor(const Workload& work);

}  // namespace penstock
