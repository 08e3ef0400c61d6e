#pragma once
// One layer of a stage: forward and the two halves of backward as functions of weights, inputs and what the
// call before left. Layers hold no weights and no state, so that workers share them and every weight version
// is an argument. Backward is written out because autograd recomputes the input chain when it is asked for
// the two halves apart, and runs everything on threads of its own.

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

/// What a call leaves for the next one on the same microbatch: what forward left is given to
/// backward_input, which leaves what backward_weight needs and lets go of the rest.
struct Record {
  Tensors tensors;
  std::vector<Record> parts{};    ///< of the layers that a layer is made of
  std::shared_ptr<void> graph{};  ///< of layers that autograd differentiates
};

/// Bytes of the storages behind the record's tensors and the others, each counted once; `graph` is not seen.
std::int64_t storage_bytes(const Record& record, Tensors others = {});

struct Output {
  at::Tensor value;
  Record record;
};

/// What a full backward gives.
struct Gradients {
  at::Tensor input;
  Tensors weights;
};

/// All functions expect gradient mode to be off, keep no reference to what they return and change nothing
/// in place.
class Layer {
 public:
  Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  virtual ~Layer() = default;

  virtual std::size_t weight_count() const { return 0; }
  /// In double precision.
  virtual Tensors initial_weights(at::Generator&) const { return {}; }

  /// `seed`: what the layer draws depends on it and on the layer alone.
  virtual Output forward(Weights weights, const at::Tensor& input, std::uint64_t seed) const = 0;
  /// From the output's gradient to the input's (undefined where the input has none: token numbers).
  virtual Output backward_input(Weights weights, const at::Tensor& gradient, Record forward) const = 0;
  /// One gradient a weight, which nobody else holds.
  virtual Tensors backward_weight(Weights, const Record&) const { return {}; }
  /// Both at once, for layers that have a cheaper way, or let go of things earlier, than one after the other.
  virtual Gradients backward(Weights weights, const at::Tensor& gradient, Record forward) const;
};

using LayerPointer = std::shared_ptr<const Layer>;

}  // namespace penstock::nn
