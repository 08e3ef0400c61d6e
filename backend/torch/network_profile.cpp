// Profiles a network like PipeDream (Narayanan et al., SOSP'19, section 3.1). It measures the forward and
// backward time, output bytes and weight bytes of each layer on one machine. Each piece is timed alone, with
// real inputs from the pieces before it. The gradients of its output are random, because zeros may take less
// time.

#include "backend/torch/network_profile.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn_like.h>
#include <tl/expected.hpp>

#include "backend/calibration/line_fit.hpp"
#include "backend/calibration/profile_options.hpp"
#include "backend/torch/layer.hpp"
#include "backend/torch/loss.hpp"
#include "backend/torch/made_network.hpp"
#include "backend/torch/models.hpp"
#include "backend/torch/networks.hpp"
#include "scenarios/model/model.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock::nn {
namespace {

Ns now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

/// The weights, the last results and the measured times of one piece.
struct Measured {
  Tensors weights;
  at::Tensor output;  // output of the latest pass
  Record record;
  std::vector<Ns> forward;
  std::vector<Ns> backward;
};

/// The passes over one network. A pass runs one microbatch forward through all pieces and back.
class Passes {
 public:
  Passes(const Network& network, std::int32_t count) : model_(network.model), pieces_(model_.pieces.size()) {
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>();
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      for (const at::Tensor& weight : model_.pieces[i].layer->initial_weights(generator))
        pieces_[i].weights.push_back(weight.to(at::kFloat));
    }
    for (std::int32_t pass = 0; pass < count; ++pass) {
      go_forward(network.inputs.of(pass));
      go_back(network.targets.of(pass));
    }
  }

  LayerGraph graph(std::int32_t warmup) const {
    LayerGraph graph;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const Measured& measured = pieces_[i];
      graph.layers.push_back(
          {.name = piece_name(model_, static_cast<std::int32_t>(i)),
           .forward_ns = spread_of({measured.forward.begin() + warmup, measured.forward.end()}).median_ns,
           .backward_ns = spread_of({measured.backward.begin() + warmup, measured.backward.end()}).median_ns,
           .output = static_cast<Bytes>(measured.output.nbytes()),
           .weights = storage_bytes({.tensors = measured.weights}),
           .inputs = model_.pieces[i].inputs});
    }
    return graph;
  }

 private:
  /// Returns the input of a piece. If it is a sum of several outputs, the piece's time includes the addition,
  /// as on a stage.
  at::Tensor input_of(const Piece& piece, const at::Tensor& of_model) const {
    at::Tensor sum;
    for (const std::int32_t input : piece.inputs) {
      const at::Tensor& value = pieces_[index(input)].output;
      sum = sum.defined() ? sum.add(value) : value;
    }
    return sum.defined() ? sum : of_model;
  }

  void go_forward(const at::Tensor& of_model) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const Ns begin = now_ns();
      auto [value, record] =
          model_.pieces[i].layer->forward(pieces_[i].weights, input_of(model_.pieces[i], of_model), 0);
      pieces_[i].forward.push_back(now_ns() - begin);
      pieces_[i].output = std::move(value);
      pieces_[i].record = std::move(record);
    }
  }

  /// Runs the backward pass and times each piece. The time of the loss is added to the last piece. Other
  /// pieces get random gradients, because zeros could take less time.
  void go_back(const at::Tensor& targets) {
    const Ns begin = now_ns();
    at::Tensor gradient = loss_of(model_.loss, pieces_.back().output, targets).gradient;
    pieces_.back().forward.back() += now_ns() - begin;
    for (std::size_t i = pieces_.size(); i-- > 0;) {
      // The gradient is made before the clock of this piece starts.
      if (i + 1 < pieces_.size()) gradient = at::randn_like(pieces_[i].output);
      const Ns start = now_ns();
      const Gradients gradients =
          model_.pieces[i].layer->backward(pieces_[i].weights, gradient, std::move(pieces_[i].record));
      pieces_[i].backward.push_back(now_ns() - start);
    }
  }

  const Model& model_;
  std::vector<Measured> pieces_;
};

}  // namespace

tl::expected<LayerGraph, std::string> profile_network(const NetworkSpec& spec,
                                                      const ProfileOptions& options) {
  const at::NoGradGuard no_grad;
  at::set_num_threads(1);  // one thread, like a stage in a run
  return made_network(spec, [&]() -> tl::expected<LayerGraph, std::string> {
    const auto network = make_network(spec, options.samples);
    if (!network) return tl::unexpected(network.error());
    return Passes(*network, options.warmup + options.repeats).graph(options.warmup);
  });
}

}  // namespace penstock::nn
