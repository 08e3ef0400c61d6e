#pragma once
// The costs of training iterations on one machine. sim/hold/fit_iterations.hpp fits them to measured
// iterations by linear least squares. They do not distinguish devices or kernels, because measured
// iterations cannot do so.

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"

namespace penstock {

/// The properties of a layer on which its time on one device depends.
struct FittedLayer {
  std::int64_t hidden = 1;
  std::int64_t heads = 1;
  std::int64_t sequence = 1;
  std::int32_t tensor = 1;
  std::int64_t micro_batch_size = 1;

  friend auto operator<=>(const FittedLayer&, const FittedLayer&) = default;
};
/// Returns a text such as "hidden 1024, heads 16, sequence 1024, tensor 2, micro_batch_size 4".
std::string to_text(const FittedLayer& kind);

/// The time of one layer, and of embedding and head, for the forward and backward pass of one microbatch.
struct LayerCosts {
  Ns layer_ns = 0;
  /// The time of the embedding and the head together. It is added to the time of the last stage.
  Ns ends_ns = 0;

  friend bool operator==(const LayerCosts&, const LayerCosts&) = default;
};

/// The times that make up the optimizer step of one device.
struct StepCosts {
  Ns constant_ns = 0;
  /// The time that each layer adds to the step.
  Ns layer_ns = 0;
  /// The optimizer's time for each 10^6 parameters on the device.
  Ns million_parameters_ns = 0;
  /// The time to reduce the gradients of d copies in a ring, for each 10^6 parameters times 2 (d - 1) / d.
  /// The key is the hidden size, because small gradients use less of the links' bandwidth.
  std::map<std::int64_t, Ns> million_reduced_ns;

  friend bool operator==(const StepCosts&, const StepCosts&) = default;
};

/// All fitted costs of one machine.
struct IterationCosts {
  /// The name of the measurements from which the costs were fitted.
  std::string source;
  /// The assumed size of the vocabulary, from which the parameters of the embedding follow.
  std::int64_t vocabulary = 1;
  std::map<FittedLayer, LayerCosts> layers;
  StepCosts step;
  /// The assumed bandwidth of messages between stages in bytes a second. 0 means that messages take no
  /// time.
  double link_bytes_per_second = 0;

  friend bool operator==(const IterationCosts&, const IterationCosts&) = default;
};

/// Returns the costs of layers of this kind. Costs are not interpolated, so it is an error if the kind was
/// not measured.
tl::expected<LayerCosts, std::string> layer_costs(const IterationCosts& costs, const FittedLayer& kind);

/// The content of a part of a model, such as a stage or all layers of a rank.
struct ModelPartSize {
  std::int64_t layers = 0;
  bool has_embedding = false;
  bool has_head = false;
};

/// Returns the number of parameters that a part of a GPT has on one of `tensor` devices. A layer has 12 h^2
/// + 13 h parameters, and the embedding with its positions has (V + s) h. If the part has a head but no
/// embedding, the head has a copy of the embedding's V h weights. The sum is divided by `tensor`.
double device_parameters(const FittedLayer& kind, std::int64_t vocabulary, const ModelPartSize& part);
/// Returns 2 (d - 1) / d for d `copies`: the share of its bytes that a device sends in a ring all-reduce.
double ring_share(std::int32_t copies);

/// Returns the forward and backward time of a stage for one microbatch.
Ns microbatch_ns(const LayerCosts& costs, const ModelPartSize& stage);
/// Returns the time of a rank's optimizer step with `copies` copies of the pipeline. Requires that the
/// reduction was measured for the hidden size.
Ns step_ns(const IterationCosts& costs, const FittedLayer& kind, const ModelPartSize& rank,
           std::int32_t copies);

// Computes the times of a pipeline's stages from costs that were fitted to measured iterations.

/// The times of one stage.
struct FittedStage {
  /// The time of forward and backward for one microbatch.
  Ns microbatch_ns = 0;
  /// The time of the rank's optimizer step. It is stated for the first stage of the rank, and is 0 for the
  /// rank's other stages.
  Ns step_ns = 0;
};

/// A pipeline whose layers are all of one kind. `layers` and `rank_of_stage` have one entry for each stage:
/// its number of layers and its rank.
struct FittedPipeline {
  FittedLayer kind;
  /// The number of copies of the pipeline.
  std::int32_t copies = 1;
  std::span<const std::int64_t> layers;
  std::span<const std::int32_t> rank_of_stage;
};

/// Returns the times of each stage. Returns an error if a kind of layer was not measured.
tl::expected<std::vector<FittedStage>, std::string> fitted_stages(const IterationCosts& costs,
                                                                  const FittedPipeline& pipeline);

}  // namespace penstock
