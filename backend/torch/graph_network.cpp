// Runs stages that were exported from PyTorch. A stage is a TorchScript module with four functions of its
// weights:
//
//     forward(weights.., input)                    -> output, saved..
//     backward_input(weights.., saved.., gradient) -> gradient of the input, kept..
//     backward_weight(weights.., kept..)           -> a gradient for each weight
//     backward(weights.., saved.., gradient)       -> gradient of the input, a gradient for each weight
//
// They are functional: autograd is not used, and a call changes none of its arguments. The first stage has no
// gradient of its input if the input is whole numbers. Tests: tests/pytorch/run_exported_stages.py.

#include "backend/torch/networks.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "backend/torch/layers.hpp"

namespace penstock::nn {

namespace {

/// The number of the format of stages.json that this file can read.
constexpr int kFormat = 1;

class GraphLayer : public Layer {
 public:
  /// Makes a layer from an exported stage with `weights` weights. `has_input_gradient` is false if the
  /// stage reads whole numbers.
  GraphLayer(torch::jit::Module stage, std::size_t weights, bool has_input_gradient)
      : stage_(std::move(stage)), weights_(weights), has_input_gradient_(has_input_gradient) {}

  std::size_t weight_count() const override { return weights_; }

  Tensors initial_weights(at::Generator&) const override {
    Tensors weights;
    for (std::size_t i = 0; i < weights_; ++i)
      weights.push_back(stage_.attr("weight_" + std::to_string(i)).toTensor().to(at::kDouble));
    return weights;
  }

  Output forward(Weights weights, const at::Tensor& input, std::uint64_t) const override {
    Tensors results = call("forward", weights, {}, input);
    at::Tensor output = std::move(results.front());
    results.erase(results.begin());
    return {.value = std::move(output), .record = {.tensors = std::move(results)}};
  }

  Output backward_input(Weights weights, const at::Tensor& gradient, Record forward) const override {
    Tensors results = call("backward_input", weights, forward.tensors, gradient);
    at::Tensor input = without_input_gradient(results);
    return {.value = std::move(input), .record = {.tensors = std::move(results)}};
  }

  Tensors backward_weight(Weights weights, const Record& record) const override {
    return call("backward_weight", weights, record.tensors, {});
  }

  Gradients backward(Weights weights, const at::Tensor& gradient, Record forward) const override {
    Tensors results = call("backward", weights, forward.tensors, gradient);
    at::Tensor input = without_input_gradient(results);
    return {.input = std::move(input), .weights = std::move(results)};
  }

 private:
  /// Calls the function `name` of the exported stage. Its arguments are the weights, the tensors, and
  /// `last` if it is defined.
  Tensors call(const char* name, Weights weights, const Tensors& tensors, const at::Tensor& last) const {
    std::vector<c10::IValue> arguments(weights.begin(), weights.end());
    arguments.insert(arguments.end(), tensors.begin(), tensors.end());
    if (last.defined()) arguments.emplace_back(last);
    return stage_.get_method(name)(std::move(arguments)).toTensorVector();
  }

  /// Removes the gradient of the input from the results and returns it. The returned tensor is undefined if
  /// there is no such gradient.
  at::Tensor without_input_gradient(Tensors& results) const {
    if (!has_input_gradient_) return {};
    at::Tensor gradient = std::move(results.front());
    results.erase(results.begin());
    return gradient;
  }

  torch::jit::Module stage_;
  std::size_t weights_;
  bool has_input_gradient_;
};

tl::unexpected<std::string> fault_of(const std::filesystem::path& file, const std::string& message) {
  return tl::unexpected(file.string() + ": " + message);
}

RandomData data_of(const nlohmann::json& of, std::uint64_t use, at::ScalarType type) {
  return {.shape = of.at("shape").get<std::vector<std::int64_t>>(),
          .below = of.at("below").get<std::int64_t>(),
          .use = use,
          .noise = type};
}

std::optional<at::ScalarType> type_named(const std::string& name) {
  if (name == "float32") return at::kFloat;
  if (name == "float64") return at::kDouble;
  return std::nullopt;
}

/// Makes the network that a manifest (stages.json) describes. Passes on the exceptions of nlohmann::json
/// and LibTorch.
tl::expected<Network, std::string> network_of(const nlohmann::json& manifest,
                                              const std::filesystem::path& file, std::int64_t samples) {
  if (manifest.at("format") != kFormat) {
    return fault_of(file, "expected format " + std::to_string(kFormat) + ", got " +
                              manifest.at("format").dump() +
                              "; export the stages again with tools/export_stages.py of this release");
  }
  const auto name = manifest.at("type").get<std::string>();
  const auto type = type_named(name);
  if (!type) return fault_of(file, "type: expected float32 or float64, got " + name);
  const bool is_for_gpu = manifest.value("device", "cpu") == "cuda";
  if (is_for_gpu && !at::hasCUDA()) {
    return fault_of(file,
                    "the stages were exported on a GPU, and this machine has none; export them from a module "
                    "on the CPU");
  }
  Network network{.model = {},
                  .inputs = data_of(manifest.at("input"), 1, *type),
                  .targets = data_of(manifest.at("target"), 2, *type),
                  .type = *type,
                  .exported = true,
                  .device = is_for_gpu ? at::kCUDA : at::kCPU};
  network.model.loss =
      manifest.at("loss") == "cross_entropy" ? Loss::cross_entropy : Loss::mean_squared_error;
  if (network.inputs.shape.empty() || network.inputs.shape.front() != samples) {
    const std::int64_t exported = network.inputs.shape.empty() ? 0 : network.inputs.shape.front();
    return fault_of(file, "the stages were exported for " + std::to_string(exported) +
                              " samples in a microbatch, and the scenario has " + std::to_string(samples) +
                              "; set training.micro_batch_size, or export them for this size");
  }
  // The interpreter of TorchScript runs the graphs as they are. Its optimizer would change them after the
  // first calls, which would be timed.
  torch::jit::setGraphExecutorOptimize(false);
  for (const nlohmann::json& stage : manifest.at("stages")) {
    const auto path = file.parent_path() / stage.at("file").get<std::string>();
    const bool first = network.model.pieces.empty();
    network.model.append("Stage", std::make_shared<GraphLayer>(torch::jit::load(path.string()),
                                                               stage.at("weights").get<std::size_t>(),
                                                               !first || network.inputs.below == 0));
  }
  if (network.model.pieces.empty()) return fault_of(file, "stages: expected at least one stage");
  return network;
}

}  // namespace

tl::expected<Network, std::string> graph_network(const std::string& folder, std::int64_t samples) {
  const std::filesystem::path file = std::filesystem::path(folder) / "stages.json";
  std::ifstream text(file);
  if (!text) {
    return fault_of(file, "cannot be read; expected a folder that tools/export_stages.py has written");
  }
  try {
    return network_of(nlohmann::json::parse(text), file, samples);
  } catch (const c10::Error& error) {
    return fault_of(file, std::string("a stage cannot be loaded: ") + error.what_without_backtrace());
  } catch (const std::exception& error) {
    return fault_of(file, std::string("not a file of tools/export_stages.py: ") + error.what());
  }
}

}  // namespace penstock::nn
