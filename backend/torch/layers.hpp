#pragma once
// The layers that models are built of. B is a microbatch's samples, T the positions of a sequence.

#include <cstdint>
#include <vector>

#include "backend/torch/layer.hpp"

namespace penstock::nn {

/// x W' + b on the last dimension.
LayerPointer linear(std::int64_t inputs, std::int64_t outputs);
/// Over the last dimension, with scale and shift.
LayerPointer layer_norm(std::int64_t width);
/// Token numbers [B, T], T <= positions, to vectors [B, T, width]: of the token plus of its position.
LayerPointer embedding(std::int64_t tokens, std::int64_t positions, std::int64_t width);

struct ConvolutionShape {
  std::int64_t inputs = 1;   ///< channels
  std::int64_t outputs = 1;  ///< channels
  std::int64_t kernel = 3;   ///< odd: height and width; padded so that stride 1 keeps the size
  std::int64_t stride = 1;
};
/// [B, inputs, height, width] to [B, outputs, ceil(height / stride), ceil(width / stride)].
LayerPointer convolution(const ConvolutionShape& shape);

/// x Phi(x), exact (Hendrycks and Gimpel 2016).
LayerPointer gelu();
/// Sets each value to 0 with that probability and scales the others, so that the mean stays. `stream`
/// tells the dropout layers of a model apart: the mask is a function of it, the seed and the shape, the same
/// on every device.
LayerPointer dropout(double probability, std::uint64_t stream);
/// [B, T, 3 width], queries, keys and values, to [B, T, width]: softmax(Q K' / sqrt(width / heads)) V a head,
/// no position looking at later ones (Vaswani et al., NIPS'17, section 3.2). Requires heads to divide width.
LayerPointer causal_attention(std::int64_t heads);
/// [B, channels, height, width] to [B, channels].
LayerPointer mean_pool();

// --- composites -----------------------------------------------------------------------------------------

/// One after the other; an empty one passes its input on.
LayerPointer sequential(std::vector<LayerPointer> layers);
/// x + layer(x).
LayerPointer residual(LayerPointer layer);

struct MlpShape {
  std::int64_t width = 1;
  std::int64_t hidden = 1;
  std::int64_t outputs = 1;
};
/// Linear, GELU, Linear.
LayerPointer mlp(const MlpShape& shape);

struct BlockShape {
  std::int64_t width = 1;
  std::int64_t heads = 1;
  std::int64_t hidden = 1;
  double dropout = 0;        ///< probability, at the end of both branches
  std::uint64_t number = 0;  ///< of the block in its model: its dropout layers are 2 number, 2 number + 1
};
/// x + dropout(linear(attention(linear(norm(x))))), then the same around an MLP (pre-norm, as GPT-2).
LayerPointer transformer_block(const BlockShape& shape);

/// Convolution, GELU, convolution with stride 2, GELU, mean over the image, Linear: images to `outputs`.
struct ConvNetShape {
  std::int64_t channels = 1;
  std::int64_t hidden = 1;
  std::int64_t outputs = 1;
};
LayerPointer conv_net(const ConvNetShape& shape);

}  // namespace penstock::nn
