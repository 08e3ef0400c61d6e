#pragma once
// The layers of which models consist. In shapes, B is the number of samples of a microbatch, and T is the
// number of positions of a sequence.

#include <cstdint>
#include <vector>

#include "backend/torch/layer.hpp"

namespace penstock::nn {

/// Returns a linear layer, which computes x W' + b on the last dimension.
LayerPointer linear(std::int64_t inputs, std::int64_t outputs);
/// Returns a layer that normalizes the last dimension and applies a learned scale and shift.
LayerPointer layer_norm(std::int64_t width);
/// Returns a layer that maps token numbers [B, T] to vectors [B, T, width]. Each vector is the sum of the
/// token's vector and the position's vector. Requires T <= positions.
LayerPointer embedding(std::int64_t tokens, std::int64_t positions, std::int64_t width);

struct ConvolutionShape {
  std::int64_t inputs = 1;   ///< number of channels
  std::int64_t outputs = 1;  ///< number of channels
  /// Height and width of the kernel, which must be odd. The padding is such that an image keeps its size if
  /// the stride is 1.
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
};
/// Returns a layer that maps images [B, inputs, height, width] to [B, outputs, ceil(height / stride),
/// ceil(width / stride)].
LayerPointer convolution(const ConvolutionShape& shape);

/// Returns a layer that computes the exact GELU, x Phi(x) (Hendrycks and Gimpel 2016).
LayerPointer gelu();
/// Returns a layer that sets each value to 0 with this probability, and scales the others so that the mean
/// stays the same. `stream` is a different number for each dropout layer of a model. The mask depends only on
/// `stream`, the seed and the shape, so it is the same on every device.
LayerPointer dropout(double probability, std::uint64_t stream);
/// Returns a layer that maps queries, keys and values [B, T, 3 width] to [B, T, width]. Each head computes
/// softmax(Q K' / sqrt(width / heads)) V. A position does not use later positions (Vaswani et al., NIPS'17,
/// section 3.2). Requires that width is a multiple of heads.
LayerPointer causal_attention(std::int64_t heads);
/// Returns a layer that maps images [B, channels, height, width] to the mean over all pixels, [B, channels].
LayerPointer mean_pool();

// --- composites -----------------------------------------------------------------------------------------

/// Returns a layer that applies `layers` one after the other. If there are none, it returns its input.
LayerPointer sequential(std::vector<LayerPointer> layers);
/// Returns a residual layer, which computes x + layer(x).
LayerPointer residual(LayerPointer layer);

struct MlpShape {
  std::int64_t width = 1;
  std::int64_t hidden = 1;
  std::int64_t outputs = 1;
};
/// Returns a layer that applies Linear, GELU and Linear.
LayerPointer mlp(const MlpShape& shape);

struct BlockShape {
  std::int64_t width = 1;
  std::int64_t heads = 1;
  std::int64_t hidden = 1;
  double dropout = 0;  ///< probability of the dropout at the end of both branches
  /// The number of the block in its model. The block's dropout layers have the streams 2 * number and 2 *
  /// number + 1.
  std::uint64_t number = 0;
};
/// Returns a pre-norm transformer block, as in GPT-2. It computes y = x +
/// dropout(linear(attention(linear(norm(x))))), and then y + dropout(mlp(norm(y))).
LayerPointer transformer_block(const BlockShape& shape);

/// The sizes of a network that maps images to `outputs` values. It applies a convolution, GELU, a convolution
/// with stride 2, GELU, the mean over the image, and Linear.
struct ConvNetShape {
  std::int64_t channels = 1;
  std::int64_t hidden = 1;
  std::int64_t outputs = 1;
};
LayerPointer conv_net(const ConvNetShape& shape);

}  // namespace penstock::nn
