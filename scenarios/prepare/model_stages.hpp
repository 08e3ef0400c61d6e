#pragma once
// Computes the figures of a model for each stage, and scales them to another microbatch size: figure *
// wanted / own, rounded to the nearest. `own` is the number of samples for which the figures hold.
// program_prices.cpp uses both functions.

#include <cstdint>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {

/// The number of samples for which figures are stated (`own`), and the number for which they are needed
/// (`wanted`). Both are at least 1.
struct Scaling {
  std::int64_t own = 1;
  std::int64_t wanted = 1;
};

/// A function object that converts numbers of at least 0 by a Scaling. It records whether a result exceeded
/// 64 bits. Later results then have no meaning.
class Scaler {
 public:
  explicit Scaler(Scaling scaling) : scaling_(scaling) {}

  std::int64_t operator()(std::int64_t figure);
  /// Returns the sum of a scaled duration and an overhead that does not depend on samples. Also records an
  /// overflow.
  Ns with_overhead(Ns scaled_ns, Ns overhead_ns);

  bool overflowed() const { return overflowed_; }
  /// Returns the error message to show if overflowed() is true.
  std::string overflow() const;

 private:
  Scaling scaling_;
  bool overflowed_ = false;
};

// --- scaled layers ---------------------------------------------------------------------------------------

/// Returns the layers with times and bytes scaled to another number of samples. Fails if a figure exceeds
/// 2^63.
tl::expected<LayerGraph, std::string> scaled_layers(LayerGraph graph, Scaling scaling);

/// The costs of one stage before they are scaled to the microbatch size of the run.
struct UnscaledStage {
  StageCost cost;
  Ns overhead_ns = 0;
  Bytes activation = 0;
  Bytes gradient = 0;
};

using UnscaledStages = tl::expected<std::vector<UnscaledStage>, std::string>;

/// Returns the unscaled costs of the stages for a model that states figures for each stage. Fails if the
/// length of a list is not `stages`, or if backward times do not add up.
UnscaledStages unscaled_stages(const StageFigures& figures, const BytesPerWeightByte& beside,
                               std::int32_t stages);
/// Returns the unscaled costs of the stages for a model of layers. Stage i has the layers from ends[i - 1]
/// to ends[i], and its costs are their sums. `slowness` is empty, or has a factor for each stage, by which
/// its times are multiplied. Returns an error if a figure exceeds 2^63.
UnscaledStages unscaled_stages(const LayerGraph& graph, const BytesPerWeightByte& beside,
                               const std::vector<std::int32_t>& ends,
                               const std::vector<double>& slowness = {});

}  // namespace penstock
