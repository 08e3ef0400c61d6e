// Computes the sizes and times of one block. The block has width h, inner width f and a heads. A sample has s
// tokens, and a value has e bytes:
//
//   projections   8 s h^2        queries, keys, values and the output
//   core          4 s^2 h        scores and the sum over the values
//   feed-forward  4 s h f
//
// The first three lines are operations. The next lines are bytes that the block stores from F to B. Tensor
// parallelism divides `shared` and `core`, and sequence parallelism also divides `whole`:
//
//   whole    (4 e + 2) s h        inputs of attention, feed-forward and two layer norms; two dropout masks
//   shared   4 e s h + 2 e s f    queries, keys, values, input of the output projection; both tensors of the
//                                 inner width
//   core     (2 e + 1) a s^2      softmax's output, its dropout's mask and output
//
// For f = 4 h and e = 2 these are the 24 s h^2 + 4 s^2 h of Narayanan et al. (SC'21, appendix) and the s h
// (10 + 24 + 5 a s / h) of Korthikanti et al. (MLSys'23, section 4).

#include "scenarios/model/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "schedules/ir/action.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

constexpr std::int64_t kMostFigure = std::numeric_limits<std::int64_t>::max();

/// Returns the share of one device if `whole` is divided among `parts` devices, rounded up.
Wide part_of(Wide whole, std::int64_t parts) { return (whole + parts - 1) / parts; }

// --- operations -----------------------------------------------------------------------------------------

double core_flops(const TransformerShape& shape) {
  const auto sequence = static_cast<double>(shape.sequence);
  return 4 * sequence * sequence * static_cast<double>(shape.hidden);
}

double block_flops(const TransformerShape& shape) {
  const auto sequence = static_cast<double>(shape.sequence);
  const auto hidden = static_cast<double>(shape.hidden);
  return 8 * sequence * hidden * hidden + 4 * sequence * hidden * static_cast<double>(shape.feed_forward) +
         core_flops(shape);
}

double head_flops(const TransformerShape& shape) {
  return 2 * static_cast<double>(shape.sequence) * static_cast<double>(shape.hidden) *
         static_cast<double>(shape.vocabulary);
}

/// Returns the floating-point operations that the backward pass of one block recomputes.
double recomputed_flops(const TransformerShape& shape) {
  switch (shape.recompute) {
    case BlockRecompute::none:
      return 0;
    case BlockRecompute::selective:
      // Korthikanti et al. (MLSys'23) count the core of attention 3 times, because softmax and dropouts are
      // slow.
      return 3 * core_flops(shape);
    case BlockRecompute::full:
      return block_flops(shape);
  }
  return 0;
}

// --- bytes ----------------------------------------------------------------------------------------------

Wide block_parameters(const TransformerShape& shape) {
  const Wide hidden = shape.hidden;
  const Wide feed_forward = shape.feed_forward;
  return 4 * hidden * hidden + 2 * hidden * feed_forward + 9 * hidden + feed_forward;
}

Wide embedding_parameters(const TransformerShape& shape) {
  return (static_cast<Wide>(shape.vocabulary) + shape.sequence) * shape.hidden;
}

Bytes weight_bytes(const TransformerShape& shape, Wide parameters) {
  return saturated(part_of(parameters * shape.bytes_per_value, shape.tensor_parallel));
}

Wide tokens_by_hidden(const TransformerShape& shape) {
  return static_cast<Wide>(shape.sequence) * shape.hidden;
}

/// Returns the number of devices that divide the tensors along the sequence. It is `tensor_parallel` with
/// sequence parallelism, and 1 otherwise.
std::int64_t sequence_parts(const TransformerShape& shape) {
  return shape.sequence_parallel ? shape.tensor_parallel : 1;
}

Bytes output_bytes(const TransformerShape& shape) {
  return saturated(part_of(tokens_by_hidden(shape) * shape.bytes_per_value, sequence_parts(shape)));
}

/// Returns the bytes that the embedding holds for the backward pass: the mask of the dropout after it.
Bytes kept_of_embedding(const TransformerShape& shape) {
  return saturated(part_of(tokens_by_hidden(shape), sequence_parts(shape)));
}

/// Returns the bytes that the head holds for the backward pass: the inputs of the last layer norm and of the
/// projection, and the logits.
Bytes kept_of_head(const TransformerShape& shape) {
  const Wide inputs = part_of(2 * tokens_by_hidden(shape) * shape.bytes_per_value, sequence_parts(shape));
  const Wide logits = 4 * static_cast<Wide>(shape.sequence) * shape.vocabulary;
  return saturated(inputs + part_of(logits, shape.tensor_parallel));
}

// --- times ----------------------------------------------------------------------------------------------

double compute_ns(double flops, const TransformerShape& shape, const TransformerSpeed& speed) {
  return 1e9 * flops /
         (speed.flops_per_second * speed.efficiency * static_cast<double>(shape.tensor_parallel));
}

/// Returns the time of an all-reduce of the block's output, in nanoseconds. In a ring of t devices, each
/// link carries 2 (t - 1)/t of the output. With sequence parallelism, a reduce-scatter and an all-gather
/// carry the same bytes.
double all_reduce_ns(const TransformerShape& shape, const TransformerSpeed& speed) {
  if (shape.tensor_parallel == 1) return 0;
  const auto devices = static_cast<double>(shape.tensor_parallel);
  const double bytes =
      static_cast<double>(tokens_by_hidden(shape)) * static_cast<double>(shape.bytes_per_value);
  return 1e9 * 2 * (devices - 1) / devices * bytes / speed.tensor_bytes_per_second;
}

Ns rounded(double duration_ns) {
  return duration_ns < static_cast<double>(kMostFigure) ? std::llround(duration_ns) : kMostFigure;
}

Layer embedding(const TransformerShape& shape) {
  return {.name = "embedding",
          .output = output_bytes(shape),
          .kept = kept_of_embedding(shape),
          .weights = weight_bytes(shape, embedding_parameters(shape)),
          .inputs = {}};
}

/// Returns the bytes of all recomputed activations of a block. They exist only while the block's backward
/// pass runs.
Bytes recomputed_bytes(TransformerShape shape) {
  const Bytes kept = kept_of_block(shape);
  shape.recompute = BlockRecompute::none;
  return kept_of_block(shape) - kept;
}

/// Returns the part of recomputed_bytes() that the action W (gradient of the weights) reads. It excludes
/// the core of attention, which has no weights.
Bytes read_by_weight_gradients(TransformerShape shape) {
  if (shape.recompute != BlockRecompute::full) return 0;
  const Bytes kept = kept_of_block(shape);
  shape.recompute = BlockRecompute::selective;
  return std::max<Bytes>(0, kept_of_block(shape) - kept);
}

Layer block(const TransformerShape& shape, const TransformerSpeed& speed) {
  const double all_reduce = all_reduce_ns(shape, speed);
  const double forward = compute_ns(block_flops(shape), shape, speed);
  const double recomputed = compute_ns(recomputed_flops(shape), shape, speed);
  // The forward pass has an all-reduce after attention and one after the feed-forward part. The backward pass
  // has one at the input of each. Full recomputation repeats the all-reduces of the forward pass.
  const int backward_all_reduces = shape.recompute == BlockRecompute::full ? 4 : 2;
  return {.name = "",
          .forward_ns = rounded(forward + 2 * all_reduce),
          .backward_ns = rounded(2 * forward + recomputed + backward_all_reduces * all_reduce),
          .output = output_bytes(shape),
          .kept = kept_of_block(shape),
          .weights = weight_bytes(shape, block_parameters(shape)),
          .transient = recomputed_bytes(shape),
          .recomputed = read_by_weight_gradients(shape),
          .inputs = {}};
}

Layer head(const TransformerShape& shape, const TransformerSpeed& speed) {
  const double forward = compute_ns(head_flops(shape), shape, speed);
  return {.name = "head",
          .forward_ns = rounded(forward),
          .backward_ns = rounded(2 * forward),
          .kept = kept_of_head(shape),
          .weights = weight_bytes(shape, static_cast<Wide>(shape.vocabulary) * shape.hidden),
          .inputs = {}};
}

/// Returns true if a figure of the layer equals the limit kMostFigure. The real figure may be larger than
/// this limit.
bool is_beyond(const Layer& layer) {
  return layer.forward_ns == kMostFigure || layer.backward_ns == kMostFigure || layer.output == kMostFigure ||
         layer.kept == kMostFigure || layer.weights == kMostFigure;
}

}  // namespace

double parameter_count(const TransformerShape& shape) {
  return static_cast<double>(block_parameters(shape) * shape.layers + embedding_parameters(shape));
}

double model_flops(const TransformerShape& shape) {
  return 3 * (static_cast<double>(shape.layers) * block_flops(shape) + head_flops(shape));
}

double hardware_flops(const TransformerShape& shape) {
  return model_flops(shape) + static_cast<double>(shape.layers) * recomputed_flops(shape);
}

Bytes kept_of_block(const TransformerShape& shape) {
  const Wide value = shape.bytes_per_value;
  const Wide sequence = shape.sequence;
  // With full recomputation, a device stores only the block's input. As in the paper (MLSys'23), it stores
  // the whole input even with sequence parallelism.
  if (shape.recompute == BlockRecompute::full) return saturated(value * tokens_by_hidden(shape));
  const Wide core =
      shape.recompute == BlockRecompute::selective ? 0 : (2 * value + 1) * shape.heads * sequence * sequence;
  const Wide whole = (4 * value + 2) * tokens_by_hidden(shape);
  const Wide shared = 4 * value * tokens_by_hidden(shape) + 2 * value * sequence * shape.feed_forward + core;
  return saturated(part_of(whole, sequence_parts(shape)) + part_of(shared, shape.tensor_parallel));
}

tl::expected<LayerGraph, std::string> transformer_layers(const TransformerShape& shape,
                                                         const TransformerSpeed& speed) {
  LayerGraph graph;
  graph.layers.push_back(embedding(shape));
  const Layer one = block(shape, speed);
  for (std::int64_t i = 0; i < shape.layers; ++i) {
    graph.layers.push_back(one);
    graph.layers.back().name = fmt::format("block{}", i);
  }
  graph.layers.push_back(head(shape, speed));
  for (std::size_t i = 0; i < graph.layers.size(); ++i) {
    Layer& layer = graph.layers[i];
    if (i > 0) layer.inputs = {static_cast<std::int32_t>(i) - 1};
    if (is_beyond(layer)) {
      return tl::unexpected(fmt::format(
          "the layer {} would take more than 2^63 ns or bytes for one sample; take smaller sizes or a faster "
          "device",
          layer.name));
    }
  }
  return graph;
}

}  // namespace penstock
