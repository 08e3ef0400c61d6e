#pragma once
// What training steps of one machine cost, read out of measured iterations by linear least squares
// (sim/measured/fit_iterations.hpp): no device, no kernels, only what was told apart.

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"

namespace penstock {

/// All that a layer's time on one device depends on.
struct FittedLayer {
  std::int64_t hidden = 1;
  std::int64_t heads = 1;
  std::int64_t sequence = 1;
  std::int32_t tensor = 1;
  std::int64_t micro_batch_size = 1;

  friend auto operator<=>(const FittedLayer&, const FittedLayer&) = default;
};
/// "hidden 1024, heads 16, sequence 1024, tensor 2, micro_batch_size 4".
std::string to_text(const FittedLayer& kind);

/// Forward and backward of one microbatch.
struct LayerCosts {
  Ns layer_ns = 0;
  Ns ends_ns = 0;  ///< embedding and head together, which the last stage has

  friend bool operator==(const LayerCosts&, const LayerCosts&) = default;
};

/// What a device does once a step.
struct StepCosts {
  Ns constant_ns = 0;
  Ns layer_ns = 0;               ///< for each layer
  Ns million_parameters_ns = 0;  ///< for each 10^6 parameters of the device: optimizer
  /// For each 10^6 x 2 (d - 1) / d: gradients of d copies, in a ring. By hidden size, since small gradients
  /// reach less of the links' bandwidth.
  std::map<std::int64_t, Ns> million_reduced_ns;

  friend bool operator==(const StepCosts&, const StepCosts&) = default;
};

struct IterationCosts {
  std::string source;           ///< what they were fitted on
  std::int64_t vocabulary = 1;  ///< assumed: of the embedding, whose parameters are updated and reduced
  std::map<FittedLayer, LayerCosts> layers;
  StepCosts step;
  double link_bytes_per_second = 0;  ///< assumed: of messages between stages; 0: they are free

  friend bool operator==(const IterationCosts&, const IterationCosts&) = default;
};

/// Those of layers of this kind. Error: it was not measured; nothing is guessed between those that were.
tl::expected<LayerCosts, std::string> layer_costs(const IterationCosts& costs, const FittedLayer& kind);

/// A part of a model, on a rank or in a stage.
struct ModelPartSize {
  std::int64_t layers = 0;
  bool has_embedding = false;
  bool has_head = false;
};

/// Of a GPT on one of `tensor` devices: 12 h^2 + 13 h a layer, (V + s) h the embedding and its positions, V h
/// a head without the embedding, which is a copy of it.
double device_parameters(const FittedLayer& kind, std::int64_t vocabulary, const ModelPartSize& part);
/// 2 (d - 1) / d.
double ring_share(std::int32_t copies);

/// Forward and backward of a stage for one microbatch.
Ns microbatch_ns(const LayerCosts& costs, const ModelPartSize& stage);
/// A rank's step, of layers whose hidden size is among those of the reduction, with `copies` of the pipeline.
Ns step_ns(const IterationCosts& costs, const FittedLayer& kind, const ModelPartSize& rank,
           std::int32_t copies);

}  // namespace penstock
