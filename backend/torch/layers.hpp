#pragma once
// The layers of which models consist, and the losses. A layer has three functions: forward and the two halves
// of backward (gradients of the inputs and of the weights). Their arguments are weights, inputs and a record.
// A layer object stores no weights and no state. Workers can therefore share it, and each call gets a weight
// version as an argument. The backward is written by hand. If autograd were called for the two halves
// separately, it would compute the gradients of the inputs twice. autograd also uses its own threads.
// autograd_layer() makes other layers with autograd.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

namespace penstock::nn {

using Tensors = std::vector<at::Tensor>;
using Weights = std::span<const at::Tensor>;

/// The data that one function of a layer stores for the next function on the same microbatch.
/// backward_input gets the record of forward. It returns the record that backward_weight needs.
struct Record {
  Tensors tensors;
  std::vector<Record> parts{};    ///< records of the inner layers, if the layer consists of other layers
  std::shared_ptr<void> graph{};  ///< autograd graph of a layer made by autograd_layer()
};

/// Returns the bytes of all storages that the tensors of the record and `others` use. Counts a storage once
/// even if several tensors share it. Does not count `graph`.
std::int64_t storage_bytes(const Record& record, Tensors others = {});

struct Output {
  at::Tensor value;
  Record record;
};

/// The gradients that a full backward pass (B) computes.
struct Gradients {
  at::Tensor input;
  Tensors weights;
};

/// A layer of a network. All functions require that gradient mode is off. They store no reference to their
/// results and change no tensor in place.
class Layer {
 public:
  Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  virtual ~Layer() = default;

  virtual std::size_t weight_count() const { return 0; }
  /// Returns random initial weights in double precision.
  virtual Tensors initial_weights(at::Generator&) const { return {}; }

  /// Computes the output of the layer. The layer's random numbers depend only on `seed` and the layer.
  virtual Output forward(Weights weights, const at::Tensor& input, std::uint64_t seed) const = 0;
  /// Computes the gradient of the input from the gradient of the output. If the input can have no gradient,
  /// as with token numbers, the result is an undefined tensor.
  virtual Output backward_input(Weights weights, const at::Tensor& gradient, Record forward) const = 0;
  /// Computes and returns one gradient for each weight. No other object may use the returned tensors.
  virtual Tensors backward_weight(Weights, const Record&) const { return {}; }
  /// Computes the gradients of the input and of the weights together. A layer overrides it if this is
  /// faster, or frees memory earlier, than backward_input followed by backward_weight.
  virtual Gradients backward(Weights weights, const at::Tensor& gradient, Record forward) const;
};

using LayerPointer = std::shared_ptr<const Layer>;

// The layers of which models consist. In shapes, B is the number of samples of a microbatch, and T is the
// number of positions of a sequence.

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
  /// The height and the width of the kernel, which must be odd. The padding is such that an image keeps its
  /// size if the stride is 1.
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
};
/// Returns a layer that maps images [B, inputs, height, width] to [B, outputs, ceil(height / stride),
/// ceil(width / stride)].
LayerPointer convolution(const ConvolutionShape& shape);

/// Returns a layer that computes the exact GELU, x Phi(x) (Hendrycks and Gimpel 2016).
LayerPointer gelu();
/// Returns a layer that sets each value to 0 with this probability, and scales the other values so that the
/// mean stays the same. `stream` must be a different number for each dropout layer of a model. The mask
/// depends only on `stream`, the seed and the shape, so it is the same on every device.
LayerPointer dropout(double probability, std::uint64_t stream);
/// Returns a layer of causal attention. It maps queries, keys and values [B, T, 3 width] to [B, T, width].
/// Each head computes softmax(Q K' / sqrt(width / heads)) V. A position does not use later positions
/// (Vaswani et al., NIPS'17, section 3.2). Requires that width is a multiple of heads.
LayerPointer causal_attention(std::int64_t heads);
/// Returns a layer that maps images [B, channels, height, width] to the mean over all pixels, [B, channels].
LayerPointer mean_pool();

// --- composites -----------------------------------------------------------------------------------------

/// Returns a layer that applies `layers` one after the other. If the list is empty, the layer returns its
/// input.
LayerPointer sequential(std::vector<LayerPointer> layers);
/// Returns a residual layer, which computes x + layer(x).
LayerPointer residual(LayerPointer layer);

struct MlpShape {
  std::int64_t width = 1;
  std::int64_t hidden = 1;
  std::int64_t outputs = 1;
};
/// Returns a layer that applies a linear layer, GELU and a second linear layer.
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

// The losses that a last stage can compute.

enum class Loss : std::uint8_t {
  mean_squared_error,  // mean of the squared errors of all elements
  // The cross entropy between the softmax of the last dimension and class numbers. The result is the mean
  // over all other dimensions.
  cross_entropy,
};

struct LossValue {
  at::Tensor value;     ///< loss, a scalar
  at::Tensor gradient;  ///< gradient of the loss with respect to the prediction
};

/// Returns the value of a loss and its gradient. The target must have the shape of the prediction. For
/// cross entropy, it must have this shape without the last dimension.
LossValue loss_of(Loss loss, const at::Tensor& prediction, const at::Tensor& target);

// Makes a layer from any torch::nn::Module, for layers that are not defined above. autograd computes its
// gradients. If I (gradient of the inputs) and W (gradient of the weights) are separate actions, W repeats
// the computation of I.

/// A PyTorch module, and a function that calls its forward().
struct WrappedModule {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor& input)> forward;
};

/// Returns a module with a function that calls its forward. `module` is a module holder (torch::nn::Linear,
/// torch::nn::Sequential, one made by TORCH_MODULE) or a shared pointer to a module. Its ->forward must
/// take one tensor and return one.
template <class Pointer>
WrappedModule wrap(Pointer module) {
  return {.module = module.operator->()->shared_from_this(),
          .forward = [module](const at::Tensor& input) mutable { return module->forward(input); }};
}

/// A function that makes a new module. The layer calls it once for each microbatch that is in flight at the
/// same time. The output of the module must depend only on its parameters and its input. Its forward must
/// not use random numbers or change buffers.
using ModuleFactory = std::function<WrappedModule()>;

/// Returns a layer that calls a module made by `make`. The weights of the layer are the module's
/// parameters, in the module's order. Their initial values are those of a module that `make` returns.
LayerPointer autograd_layer(ModuleFactory make);

}  // namespace penstock::nn
