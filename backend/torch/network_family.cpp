// The module family of a network that LibTorch computes on CPUs. LibTorch's own threads are switched off,
// because all ranks compute at the same time and would disturb each other. To measure the bytes of stages,
// the family runs one microbatch through all stages before the run.

#include "backend/torch/networks.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
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

#include "backend/calibration/calibration_samples.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/stage_module.hpp"
#include "backend/executor/transport.hpp"
#include "backend/torch/layers.hpp"
#include "backend/torch/torch_stage.hpp"
#include "report/print/memory_category.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock::nn {

namespace {

std::int64_t bytes_of(const Payload& payload) {
  return storage_bytes({.tensors = dynamic_cast<const TensorPayload&>(*payload).tensors});
}

Bytes bytes_of(const StageModule& module, MemoryCategory category) {
  return dynamic_cast<const TorchStage&>(module).held_bytes()[static_cast<std::size_t>(category)];
}

/// Returns the action of this kind and stage for microbatch 0, with weight version 0.
Action first_of(ActionKind kind, std::size_t stage) {
  return {.kind = kind, .stage = static_cast<std::int32_t>(stage), .microbatch = 0};
}

class NetworkFamily : public ModuleFamily {
 public:
  NetworkFamily(const Experiment& experiment, CutNetwork cut)
      : experiment_(experiment),
        // The order matters: the first members read `cut.network`, and training_ then moves its data out of
        // `cut`.
        input_(cut.network.inputs.of(0)),
        type_(cut.network.type),
        // Exported stages form a chain, so no shapes of values are needed. They also do not accept a single
        // sample, which would be needed to find the shapes.
        definitions_(
            split(cut.network.model, cut.cut, {.type = type_}, cut.network.exported ? at::Tensor() : input_)),
        training_(std::make_shared<Training>(Training{
            .inputs = [data = std::move(cut.network.inputs)](std::int32_t m) { return data.of(m); },
            .targets = [data = std::move(cut.network.targets)](std::int32_t m) { return data.of(m); },
            .optimizer = cut.optimizer,
            .loss_scale = 1.0 / microbatches_of_minibatch(experiment.program),
            .observer = {}})) {}

  std::string description() const override {
    return "the network " + experiment_.network->spec.name + " on LibTorch, in " +
           (type_ == at::kDouble ? "double" : "single") + " precision, one thread a worker";
  }

  StageModules modules(std::optional<std::int32_t> rank, const Clock&) const override {
    return torch_modules(experiment_.program, definitions_, training_, rank);
  }

  const PayloadCodec* codec() const override { return &codec_; }

  /// Returns the bytes of the largest encoded payload. Gradients of activations have the sizes of the
  /// activations. Payloads of collectives have the size of the weights.
  std::size_t most_payload_bytes() const override {
    std::size_t most = 0;
    for (const StageDefinition& definition : definitions_)
      most = std::max(most, TensorCodec::bytes_of(definition.weights));
    go_forward(new_stages(), [&](std::size_t, const Payload* sent) {
      if (sent == nullptr) return;
      most = std::max(most, TensorCodec::bytes_of(dynamic_cast<const TensorPayload&>(**sent).tensors));
    });
    return most;
  }

  /// Measures the bytes of each stage by passing one microbatch through all stages, with F, I, W and STEP.
  std::vector<StageBytes> bytes_of_stages() const override {
    const Stages stages = new_stages();
    std::vector<StageBytes> bytes(stages.size());
    bytes.front().input = storage_bytes({.tensors = {input_}});
    go_forward(stages, [&](std::size_t stage, const Payload* sent) {
      if (sent != nullptr) bytes[stage].activation = bytes_of(*sent);
      bytes[stage].kept = bytes_of(*stages[stage], MemoryCategory::activations);
      bytes[stage].weights = bytes_of(*stages[stage], MemoryCategory::weights);
    });
    go_back(stages, bytes);
    return bytes;
  }

  RankAccount account(std::int32_t rank, const StageModules& modules) const override {
    RankAccount account;
    for (const auto& module : modules[static_cast<std::size_t>(rank)]) {
      if (!module) continue;
      const auto& stage = dynamic_cast<const TorchStage&>(*module);
      account.memory = stage.meter()->memory();
      account.losses.merge(stage.losses());
    }
    return account;
  }

 private:
  using Stages = std::vector<std::unique_ptr<StageModule>>;

  /// Returns one new stage module for each stage, as if one rank held all stages without replicas and
  /// shards.
  Stages new_stages() const {
    Stages stages;
    for (std::int32_t stage = 0; const StageDefinition& definition : definitions_) {
      stages.push_back(std::make_unique<TorchStage>(
          definition, training_, TorchStage::Place{.rank = 0, .stage = stage, .shard = {}}));
      ++stage;
    }
    return stages;
  }

  /// Runs the forward pass of all stages. After each stage, calls `after` with the stage and a pointer to
  /// its output, which is null for the last stage.
  template <class After>
  void go_forward(const Stages& stages, After after) const {
    const std::stop_token stop;
    std::vector<Payload> travelling;
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      const Action action = first_of(ActionKind::forward, stage);
      const std::size_t outputs = stage + 1 < stages.size() ? 1 : 0;
      travelling = stages[stage]->forward(
          {.action = action, .group = {&action, 1}, .outputs = outputs, .stop = stop}, std::move(travelling));
      after(stage, outputs > 0 ? &travelling.front() : nullptr);
    }
  }

  /// Runs I, W and STEP of each stage from the last to the first, and records the stage's bytes after each
  /// action. Requires that go_forward() has run.
  void go_back(const Stages& stages, std::vector<StageBytes>& bytes) const {
    const std::stop_token stop;
    std::vector<Payload> travelling;
    for (std::size_t stage = stages.size(); stage-- > 0;) {
      const Action of_input = first_of(ActionKind::backward_input, stage);
      const Action of_weight = first_of(ActionKind::backward_weight, stage);
      const Action update = first_of(ActionKind::step, stage);
      const std::size_t outputs = stage > 0 ? 1 : 0;
      travelling = stages[stage]->backward_input(
          {.action = of_input, .group = {&of_input, 1}, .outputs = outputs, .stop = stop},
          std::move(travelling));
      if (outputs > 0) bytes[stage].gradient = bytes_of(travelling.front());
      // I frees the bytes that F stored, except the bytes that are still stored between I and W.
      bytes[stage].released_by_input =
          bytes[stage].kept - bytes_of(*stages[stage], MemoryCategory::activations);
      stages[stage]->backward_weight({.action = of_weight, .group = {&of_weight, 1}, .stop = stop});
      bytes[stage].gradients = bytes_of(*stages[stage], MemoryCategory::gradients);
      stages[stage]->step({.action = update, .group = {&update, 1}, .stop = stop});
      bytes[stage].optimizer_state = bytes_of(*stages[stage], MemoryCategory::optimizer_state);
    }
  }

  const Experiment& experiment_;
  at::Tensor input_;  // model input of one microbatch
  at::ScalarType type_;
  std::vector<StageDefinition> definitions_;
  std::shared_ptr<const Training> training_;
  TensorCodec codec_;
};

/// Returns the first stage that lacks a gradient which the backward pass of the network needs, or nothing if
/// there is none. A stage computes the loss only if it feeds no other stage. A stage sends its gradients to
/// all stages that feed it, or to none.
std::optional<std::int32_t> stage_without_gradient(const Program& program) {
  const StageNeighbours neighbours = stage_neighbours(program);
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    const auto at = static_cast<std::size_t>(stage);
    if (program.placement.stages[at].is_forward_only()) continue;
    const std::vector<std::int32_t>& takers = neighbours.gradient_takers[at];
    const bool gives_some = !takers.empty() && takers != neighbours.predecessors[at];
    if (neighbours.gradient_givers[at] != neighbours.successors[at] || gives_some) return stage;
  }
  return std::nullopt;
}

}  // namespace

tl::expected<std::unique_ptr<ModuleFamily>, std::string> network_family(const Experiment& experiment) {
  using Family = tl::expected<std::unique_ptr<ModuleFamily>, std::string>;
  if (const auto stage = stage_without_gradient(experiment.program)) {
    return tl::unexpected("a network cannot train stage " + std::to_string(*stage) +
                          ": it needs a gradient from each stage that it feeds, and gives one to all stages "
                          "that feed it or to none; "
                          "leave model.network out, or change the edges");
  }
  return made_network(experiment.network->spec, [&]() -> Family {
    auto cut = cut_network(experiment);
    if (!cut) return tl::unexpected(std::move(cut.error()));
    if (cut->network.device != at::kCPU) {
      return tl::unexpected<std::string>(
          "the stages were exported on a GPU; take the backend cuda-local or nccl, or export them from a "
          "module "
          "on the CPU");
    }
    at::set_num_threads(1);
    return std::make_unique<NetworkFamily>(experiment, *std::move(cut));
  });
}

// Profiles a network as PipeDream does (Narayanan et al., SOSP'19, section 3.1). It measures the forward and
// backward time, output bytes and weight bytes of each layer on one machine. Each piece is measured alone,
// with real inputs from the pieces before it. The gradients of its output are random, because zeros may take
// less time.

namespace {

Ns now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

/// The weights, the last results and the measured times of one piece of the model.
struct Measured {
  Tensors weights;
  at::Tensor output;  // output of the latest pass
  Record record;
  std::vector<Ns> forward;
  std::vector<Ns> backward;
};

/// A series of passes that measure the pieces of one network. A pass runs one microbatch forward through
/// all pieces and back.
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
  /// Returns the input of a piece. If the input is a sum of several outputs, the addition counts in the
  /// time of the piece, as on a stage.
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

  /// Runs the backward pass and measures the time of each piece. The time of the loss is added to the last
  /// piece. Other pieces get random gradients, because zeros could take less time.
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
