// Cuts a model into stages. A model is a list of pieces in an order in which they can run. Each piece names
// the pieces that it reads. A stage is a set of pieces. Several tensors may cross a cut, for example with
// residual connections:
//
//     piece 0 -> 1 -> 2 -> 3 (reads 2 and 0)
//     cut         |              the outputs of 1 and 0 cross it, flattened and concatenated
//
// Weights depend on the seed and the piece's index in the model, so the cut changes no number.

#include "backend/torch/networks.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include "backend/torch/layers.hpp"
#include "backend/torch/torch_stage.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/index.hpp"

namespace penstock::nn {

/// Returns one layer for each stage of the cut, with the weights of its pieces in ascending order of pieces.
/// A stage receives all values of earlier stages that this stage or a later stage reads. It sends all values
/// that later stages read. If it sends one tensor, the tensor is unchanged. If it sends several, they are
/// flattened to [samples, features] and concatenated. `input` is the same as in split().
std::vector<LayerPointer> stage_graphs(const Model& model, const Cut& cut, const at::Tensor& input);

namespace {

Tensors initial_weights(const Model& model, std::int32_t piece, const SplitOptions& options) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(
      mixed(options.seed ^ mixed(static_cast<std::uint64_t>(piece))));
  Tensors weights = model.pieces[static_cast<std::size_t>(piece)].layer->initial_weights(generator);
  for (at::Tensor& weight : weights) weight = weight.to(options.type);
  return weights;
}

/// Returns the initial weights of these pieces on the CPU, in the order of the pieces. Draws the pieces'
/// weights in parallel, because each piece has its own seed.
std::vector<Tensors> drawn_weights(const Model& model, const std::vector<std::int32_t>& pieces,
                                   const SplitOptions& options) {
  std::vector<Tensors> all(pieces.size());
  std::atomic<std::size_t> next = 0;
  const auto draw = [&] {
    at::set_num_threads(1);  // the loop over the pieces (layers) already uses all cores
    for (std::size_t i = next++; i < pieces.size(); i = next++)
      all[i] = initial_weights(model, pieces[i], options);
  };
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::future<void>> workers;
  for (std::size_t i = 0; i < std::min(cores, pieces.size()); ++i)
    workers.push_back(std::async(std::launch::async, draw));
  for (std::future<void>& worker : workers) worker.get();
  return all;
}

}  // namespace

void Model::append(std::string name, LayerPointer layer) {
  const auto before = static_cast<std::int32_t>(pieces.size()) - 1;
  pieces.push_back({.name = std::move(name),
                    .layer = std::move(layer),
                    .inputs = before < 0 ? std::vector<std::int32_t>{} : std::vector<std::int32_t>{before}});
}

Model transformer(const TransformerShape& shape) {
  Model model{.pieces = {}, .loss = Loss::cross_entropy};
  model.append("Embedding", embedding(shape.tokens, shape.positions, shape.width));
  for (std::int64_t i = 0; i < shape.blocks; ++i) {
    model.append("TransformerBlock", transformer_block({.width = shape.width,
                                                        .heads = shape.heads,
                                                        .hidden = 4 * shape.width,
                                                        .dropout = shape.dropout,
                                                        .number = static_cast<std::uint64_t>(i)}));
  }
  model.append("Head", sequential({layer_norm(shape.width), linear(shape.width, shape.tokens)}));
  return model;
}

/// Returns a cut into stages with equal numbers of pieces. If the number of pieces is not a multiple of the
/// number of stages, the first stages get one piece more.
Cut even_cut(const Model& model, std::int32_t stages) {
  Cut cut(static_cast<std::size_t>(stages));
  const auto count = static_cast<std::int32_t>(model.pieces.size());
  std::int32_t piece = 0;
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    const std::int32_t end = piece + count / stages + (stage < count % stages ? 1 : 0);
    for (; piece < end; ++piece) cut[static_cast<std::size_t>(stage)].push_back(piece);
  }
  return cut;
}

std::vector<StageDefinition> split(const Model& model, const Cut& cut, const SplitOptions& options,
                                   const at::Tensor& input) {
  const std::vector<LayerPointer> layers = stage_graphs(model, cut, input);
  std::vector<StageDefinition> definitions;
  definitions.reserve(cut.size());
  std::vector<std::int32_t> pieces;
  std::vector<std::size_t> stages;  // the stage that runs each piece (layer of the model)
  for (std::size_t stage = 0; stage < cut.size(); ++stage) {
    definitions.push_back({.layer = layers[stage], .weights = {}, .join = Join::sum, .loss = model.loss});
    // Each piece has its own seed, so the weights of one stage can be omitted without changing other weights.
    if (!options.drawn.empty() && !options.drawn[stage]) continue;
    std::vector<std::int32_t> own = cut[stage];
    std::ranges::sort(own);
    pieces.insert(pieces.end(), own.begin(), own.end());
    stages.resize(pieces.size(), stage);
  }
  std::vector<Tensors> weights = drawn_weights(model, pieces, options);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    for (const at::Tensor& weight : weights[i])
      definitions[stages[i]].weights.push_back(weight.to(options.device));
  }
  return definitions;
}

// Builds one layer for each stage. Value i is the output of piece i, and value -1 is the model's input. A
// value is alive after a stage if this stage or an earlier one has computed it and a later stage reads it:
//
//          +-> 1 -+            stages {0, 1} {2} {3}: after the first, 0 and 1 are alive (0 for piece 2,
//       0 -+      +-> 3        1 for piece 3), after the second 1 and 2. Gradients of values that only pass
//          +-> 2 -+            through a stage pass through it as well.
//
// Tests: tests/backend_torch/torch_stage_test.cpp.

namespace {

constexpr std::int32_t kModelInput = -1;

using Values = std::map<std::int32_t, at::Tensor>;
/// The shape of one sample of each value in the model. The key is the number of the value.
using SampleShapes = std::map<std::int32_t, std::vector<std::int64_t>>;

/// Returns the numbers of the values that a piece reads. A number appears twice if the piece adds a value to
/// itself.
std::vector<std::int32_t> values_read(const Piece& piece) {
  return piece.inputs.empty() ? std::vector<std::int32_t>{kModelInput} : piece.inputs;
}

/// The set of values that one stage sends to the next as one message.
class Bundle {
 public:
  Bundle(const std::set<std::int32_t>& values, const SampleShapes& shapes) {
    for (const std::int32_t value : values) {
      const auto shape = shapes.find(value);
      if (values.size() > 1 && shape == shapes.end())
        throw std::logic_error("several tensors cross a cut, and their shapes are not known");
      parts_.emplace_back(value, shape == shapes.end() ? std::vector<std::int64_t>{} : shape->second);
    }
  }

  at::Tensor pack(const Values& values) const {
    // A single value is sent unchanged, so a chain of pieces needs no shapes and no copies.
    if (parts_.size() == 1) return values.at(parts_.front().first);
    Tensors flat;
    for (const auto& [value, shape] : parts_) flat.push_back(values.at(value).flatten(1));
    return at::cat(flat, 1);
  }

  Values unpack(const at::Tensor& packed) const {
    if (parts_.size() == 1) return {{parts_.front().first, packed}};
    Values values;
    std::int64_t begin = 0;
    for (const auto& [value, shape] : parts_) {
      // The first dimension of every value is the number of samples. The other dimensions were flattened, and
      // the values were then concatenated.
      std::vector<std::int64_t> sizes = {packed.size(0)};
      std::int64_t features = 1;
      for (const std::int64_t size : shape) {
        sizes.push_back(size);
        features *= size;
      }
      values[value] = packed.narrow(1, begin, features).reshape(sizes);
      begin += features;
    }
    return values;
  }

 private:
  std::vector<std::pair<std::int32_t, std::vector<std::int64_t>>> parts_;
};

void add(Values& values, std::int32_t value, const at::Tensor& more) {
  if (!more.defined()) return;  // some values, such as token numbers, have no gradient
  const auto [entry, fresh] = values.try_emplace(value, more);
  if (!fresh) entry->second = entry->second.add(more);
}

/// A layer that runs the pieces of one stage, which form a graph. Sequential in composites.cpp runs a chain
/// of layers instead. A value is stored until all pieces that read it have run.
class StageGraph : public Layer {
 public:
  StageGraph(std::vector<Piece> pieces, std::vector<std::int32_t> numbers, Bundle entry, Bundle exit)
      : pieces_(std::move(pieces)),
        numbers_(std::move(numbers)),
        entry_(std::move(entry)),
        exit_(std::move(exit)) {
    for (const Piece& piece : pieces_) {
      first_weight_.push_back(weight_count_);
      weight_count_ += piece.layer->weight_count();
    }
  }

  std::size_t weight_count() const override { return weight_count_; }

  Tensors initial_weights(at::Generator& generator) const override {
    Tensors all;
    for (const Piece& piece : pieces_)
      std::ranges::move(piece.layer->initial_weights(generator), std::back_inserter(all));
    return all;
  }

  Output forward(Weights weights, const at::Tensor& input, std::uint64_t seed) const override {
    Values values = entry_.unpack(input);
    Record record;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      auto [value, part] = pieces_[i].layer->forward(of_piece(weights, i), input_of(i, values), seed);
      values[numbers_[i]] = std::move(value);
      record.parts.push_back(std::move(part));
    }
    return {exit_.pack(values), std::move(record)};
  }

  Output backward_input(Weights weights, const at::Tensor& gradient, Record forward) const override {
    Values gradients = exit_.unpack(gradient);
    for (std::size_t i = pieces_.size(); i-- > 0;) {
      Record& part = forward.parts[i];
      auto [of_input, record] =
          pieces_[i].layer->backward_input(of_piece(weights, i), gradients.at(numbers_[i]), std::move(part));
      part = std::move(record);
      hand_back(i, of_input, gradients);
    }
    return {of_entry(gradients), std::move(forward)};
  }

  Tensors backward_weight(Weights weights, const Record& record) const override {
    Tensors all;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      std::ranges::move(pieces_[i].layer->backward_weight(of_piece(weights, i), record.parts[i]),
                        std::back_inserter(all));
    }
    return all;
  }

  Gradients backward(Weights weights, const at::Tensor& gradient, Record forward) const override {
    Values gradients = exit_.unpack(gradient);
    Tensors of_weights(weight_count_);
    for (std::size_t i = pieces_.size(); i-- > 0;) {
      Gradients of_piece_i = pieces_[i].layer->backward(of_piece(weights, i), gradients.at(numbers_[i]),
                                                        std::move(forward.parts[i]));
      std::ranges::move(of_piece_i.weights,
                        of_weights.begin() + static_cast<std::ptrdiff_t>(first_weight_[i]));
      hand_back(i, of_piece_i.input, gradients);
    }
    return {of_entry(gradients), std::move(of_weights)};
  }

 private:
  Weights of_piece(Weights weights, std::size_t i) const {
    return weights.subspan(first_weight_[i], pieces_[i].layer->weight_count());
  }

  /// Returns the input of piece i. It is the sum of the values that the piece reads.
  at::Tensor input_of(std::size_t i, const Values& values) const {
    at::Tensor sum;
    for (const std::int32_t value : values_read(pieces_[i]))
      sum = sum.defined() ? sum.add(values.at(value)) : values.at(value);
    return sum;
  }

  /// Adds the gradient of a piece's input to the gradient of each value that piece i reads. The input is the
  /// sum of these values, so each value has the same gradient as the sum.
  void hand_back(std::size_t i, const at::Tensor& of_input, Values& gradients) const {
    // Later pieces have added to the gradient of the piece's own output, and this piece has now used it. No
    // other piece needs it, so it is erased.
    gradients.erase(numbers_[i]);
    for (const std::int32_t value : values_read(pieces_[i])) add(gradients, value, of_input);
  }

  /// Returns the gradient of the stage's input. It is undefined if the stage reads the model's input and
  /// the model's input has no gradient.
  at::Tensor of_entry(const Values& gradients) const {
    // The remaining gradients belong to values from earlier stages. They include values that this stage does
    // not read, but only passes on to later stages.
    return gradients.empty() ? at::Tensor() : entry_.pack(gradients);
  }

  std::vector<Piece> pieces_;
  // Indices of this stage's pieces (layers) in the model, in ascending order.
  std::vector<std::int32_t> numbers_;
  Bundle entry_;
  Bundle exit_;
  std::size_t weight_count_ = 0;
  std::vector<std::size_t> first_weight_;
};

/// Returns the shapes of all values in the model. To find them, runs the model once on the CPU with
/// temporary weights.
SampleShapes sample_shapes(const Model& model, const at::Tensor& input) {
  const at::NoGradGuard no_grad;
  Values values = {{kModelInput, input.cpu()}};  // input on the CPU, like the initial weights
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>();
  const at::ScalarType type = input.is_floating_point() ? input.scalar_type() : at::kFloat;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const Piece& piece = model.pieces[i];
    Tensors weights = piece.layer->initial_weights(generator);
    for (at::Tensor& weight : weights) weight = weight.to(type);
    at::Tensor sum;
    for (const std::int32_t value : values_read(piece))
      sum = sum.defined() ? sum.add(values.at(value)) : values.at(value);
    values[static_cast<std::int32_t>(i)] = piece.layer->forward(weights, sum, 0).value;
  }
  SampleShapes shapes;
  for (const auto& [value, tensor] : values) shapes[value] = tensor.sizes().slice(1).vec();
  return shapes;
}

/// Returns true if each piece reads only the piece before it. Then only one tensor crosses each cut.
bool is_chain(const Model& model) {
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    if (values_read(model.pieces[i]) != std::vector{static_cast<std::int32_t>(i) - 1}) return false;
  }
  return true;
}

/// Returns the last stage that reads each value. The key is the number of the value. For the output of the
/// last piece, the result is the number of stages.
std::map<std::int32_t, std::size_t> last_readers(const Model& model, const Cut& cut) {
  std::map<std::int32_t, std::size_t> last;
  for (std::size_t stage = 0; stage < cut.size(); ++stage) {
    for (const std::int32_t piece : cut[stage]) {
      for (const std::int32_t value : values_read(model.pieces[index(piece)])) last[value] = stage;
    }
  }
  last[static_cast<std::int32_t>(model.pieces.size()) - 1] = cut.size();
  return last;
}

}  // namespace

std::vector<LayerPointer> stage_graphs(const Model& model, const Cut& cut, const at::Tensor& input) {
  const std::map<std::int32_t, std::size_t> last = last_readers(model, cut);
  // The shapes of the values are needed only if several tensors may cross a cut, so a chain does not need
  // them. One sample is sufficient to find them, because a batch differs only in the first dimension.
  const bool needs_shapes = input.defined() && !is_chain(model);
  const SampleShapes shapes = needs_shapes ? sample_shapes(model, input.narrow(0, 0, 1)) : SampleShapes();
  std::vector<LayerPointer> layers;
  std::set<std::int32_t> alive = {kModelInput};
  for (std::size_t stage = 0; stage < cut.size(); ++stage) {
    std::vector<std::int32_t> numbers = cut[stage];
    std::ranges::sort(numbers);
    std::vector<Piece> pieces;
    const Bundle entry(alive, shapes);
    for (const std::int32_t number : numbers) {
      pieces.push_back(model.pieces[index(number)]);
      alive.insert(number);
    }
    std::erase_if(alive, [&](std::int32_t value) { return last.at(value) <= stage; });
    layers.push_back(
        std::make_shared<StageGraph>(std::move(pieces), std::move(numbers), entry, Bundle(alive, shapes)));
  }
  return layers;
}

}  // namespace penstock::nn
