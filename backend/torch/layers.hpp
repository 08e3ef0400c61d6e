#pragma once
// The layers of which models consist. B is the number of samples of a microbatch, T the number of positions
// of a sequence.

#include <cstdint>
#include <vector>

#include "backend/torch/layer.hpp"

namespace penstock::nn {

/// Returns a layer that computes x W' + b on the last dimension.
LayerPointer linear(std::int64_t inputs, std::int64_t outputs);
/// Returns a layer that normalizes the last dimension, with scale and shift.
LayerPointer layer_norm(std::int64_t width);
/// Returns a layer that maps token numbers [B, T], T <= positions, to vectors [B, T, width]: the sum of the
/// token's and the position's vector.
LayerPointer embedding(std::int64_t tokens, std::int64_t positions, std::int64_t width);

struct ConvolutionShape {
  std::int64_t inputs = 1;   ///< channels
  std::int64_t outputs = 1;  ///< channels
  std::int64_t kernel = 3;   ///< height and width, odd; the padding is such that stride 1 retains the size
  std::int64_t stride = 1;
};
/// Returns a layer that maps [B, inputs, height, width] to [B, outputs, ceil(height / stride), ceil(width /
/// stride)].
LayerPointer convolution(const ConvolutionShape& shape);

/// Returns a layer that computes x Phi(x), exactly (Hendrycks and Gimpel 2016).
LayerPointer gelu();
/// Returns a layer that sets each value to 0 with this probability and scales the others, so that the mean
/// stays the same. `stream` distinguishes the dropout layers of a model. The mask is a function of `stream`,
/// the seed and the shape, and is the same on every device.
LayerPointer dropout(double probability, std::uint64_t stream);
/// Returns a layer that maps queries, keys and values [B, T, 3 width] to [B, T, width]. Each head computes
/// softmax(Q K' / sqrt(width / heads)) V, where no position sees later ones (Vaswani et al., NIPS'17, section
/// 3.2). Requires that heads divides width.
LayerPointer causal_attention(std::int64_t heads);
/// Returns a layer that maps [B, channels, height, width] to [B, channels] by the mean.
LayerPointer mean_pool();

// --- composites -----------------------------------------------------------------------------------------

/// Returns the layers in sequence. An empty sequence returns its input.
LayerPointer sequential(std::vector<LayerPointer> layers);
/// Returns a layer that computes x + layer(x).
LayerPointer residual(LayerPointer layer);

struct MlpShape {
  std::int64_t width = 1;
  std::int64_t hidden = 1;
  std::int64_t outputs = 1;
};
/// Returns Linear, GELU, Linear.
LayerPointer mlp(const MlpShape& shape);

struct BlockShape {
  std::int64_t width = 1;
  std::int64_t heads = 1;
  std::int64_t hidden = 1;
  double dropout = 0;  ///< probability, at the end of both branches
  /// Number of the block in its model; its dropout layers have the streams 2 number and 2 number + 1.
  std::uint64_t number = 0;
};
/// Returns x + dropout(linear(attention(linear(norm(x))))), followed by the same around an MLP (pre-norm, as
/// in GPT-2).
LayerPointer transformer_block(const BlockShape& shape);

/// A network that maps images to `outputs`: convolution, GELU, convolution with stride 2, GELU, mean over the
/// image, Linear.
struct ConvNetShape {
  std::int64_t channels = 1;
  std::int64_t hidden = 1;
  std::int64_t outputs = 1;
};
LayerPointer conv_net(const ConvNetShape& shape);

}  // namespace penstock::nn
