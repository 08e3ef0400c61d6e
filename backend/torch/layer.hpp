#pragma once
// The interface of a layer of a stage: the forward pass and the two halves of the backward pass (I and W). A
// layer stores neither weights nor state, so workers share it, and the weights are arguments. Layers
// implement the backward pass themselves. autograd would compute the gradients of inputs twice if I and W run
// separately, and it uses its own threads.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace penstock::nn {

using Tensors = std::vector<at::Tensor>;
using Weights = std::span<const at::Tensor>;

/// The data that one call stores for the next call on the same microbatch. backward_input gets the record of
/// forward. It returns the record that backward_weight needs.
struct Record {
  Tensors tensors;
  std::vector<Record> parts{};    ///< records of the inner layers, if the layer consists of other layers
  std::shared_ptr<void> graph{};  ///< autograd graph of a layer made by autograd_layer()
};

/// Returns the bytes of all storages that the record's tensors and `others` use. Counts each storage once.
/// Does not count `graph`.
std::int64_t storage_bytes(const Record& record, Tensors others = {});

struct Output {
  at::Tensor value;
  Record record;
};

/// The results of a full backward pass (B).
struct Gradients {
  at::Tensor input;
  Tensors weights;
};

/// A layer. All functions require that gradient mode is off. They store no reference to their results and
/// change no tensor in place.
class Layer {
 public:
  Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  virtual ~Layer() = default;

  virtual std::size_t weight_count() const { return 0; }
  /// Returns random initial weights in double precision.
  virtual Tensors initial_weights(at::Generator&) const { return {}; }

  /// Computes the output. Random numbers that the layer uses depend only on `seed` and the layer.
  virtual Output forward(Weights weights, const at::Tensor& input, std::uint64_t seed) const = 0;
  /// Computes the gradient of the input from the gradient of the output. The result is undefined if the input
  /// has no gradient, as token numbers.
  virtual Output backward_input(Weights weights, const at::Tensor& gradient, Record forward) const = 0;
  /// Returns one gradient for each weight. No other object may use the returned tensors.
  virtual Tensors backward_weight(Weights, const Record&) const { return {}; }
  /// Computes both gradients. A layer overrides it if this is faster, or frees memory earlier, than
  /// backward_input followed by backward_weight.
  virtual Gradients backward(Weights weights, const at::Tensor& gradient, Record forward) const;
};

using LayerPointer = std::shared_ptr<const Layer>;

}  // namespace penstock::nn
