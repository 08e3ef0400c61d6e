#pragma once
// One layer of a stage: forward and the two halves of backward, as functions of weights, inputs and a record.
// Layers have no weights and no state, so workers share them, and each weight version is an argument.
// Backward is written out, because autograd computes the chain of the inputs again if it is asked for the two
// halves separately. autograd also runs on its own threads.

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

/// The data that a call stores for the next one on the same microbatch. backward_input gets forward's record,
/// and leaves what backward_weight needs.
struct Record {
  Tensors tensors;
  std::vector<Record> parts{};    ///< records of the layers of which a layer consists
  std::shared_ptr<void> graph{};  ///< graph of a layer that autograd differentiates
};

/// Returns the bytes of the storages of the record's tensors and of `others`, each counted once. `graph` is
/// not counted.
std::int64_t storage_bytes(const Record& record, Tensors others = {});

struct Output {
  at::Tensor value;
  Record record;
};

/// The results of a full backward.
struct Gradients {
  at::Tensor input;
  Tensors weights;
};

/// A layer. All functions require that gradient mode is off, keep no reference to what they return, and
/// change nothing in place.
class Layer {
 public:
  Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  virtual ~Layer() = default;

  virtual std::size_t weight_count() const { return 0; }
  /// Returns initial weights in double precision.
  virtual Tensors initial_weights(at::Generator&) const { return {}; }

  /// Computes the output. Random numbers of the layer depend only on `seed` and the layer.
  virtual Output forward(Weights weights, const at::Tensor& input, std::uint64_t seed) const = 0;
  /// Computes the gradient of the input from that of the output. It is undefined if the input has none (token
  /// numbers).
  virtual Output backward_input(Weights weights, const at::Tensor& gradient, Record forward) const = 0;
  /// Returns one gradient for each weight. No other object may hold them.
  virtual Tensors backward_weight(Weights, const Record&) const { return {}; }
  /// Computes both gradients. Layers override it if that is cheaper, or frees memory earlier, than one half
  /// after the other.
  virtual Gradients backward(Weights weights, const at::Tensor& gradient, Record forward) const;
};

using LayerPointer = std::shared_ptr<const Layer>;

}  // namespace penstock::nn
