#pragma once
// Models that can be trained in a pipeline. A model is a graph of pieces (layers), which is cut into
// stages.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <tl/expected.hpp>

#include "backend/calibration/calibration_samples.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/torch/layers.hpp"
#include "backend/torch/stage_weights.hpp"
#include "backend/torch/torch_stage.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock::nn {

/// The smallest part of a model that can be assigned to a stage. It is one layer.
struct Piece {
  std::string name;  ///< kind of the layer, such as "Linear"
  LayerPointer layer;
  /// The indices of the earlier pieces that this piece reads. Its input is the sum of their outputs. If the
  /// list is empty, its input is the model's input.
  std::vector<std::int32_t> inputs;
};

/// A list of pieces in an order in which they can run. The loss uses the output of the last piece. The
/// output of every other piece is read by at least one later piece.
struct Model {
  std::vector<Piece> pieces;
  Loss loss = Loss::mean_squared_error;

  /// Adds a piece whose input is the output of the last piece in the list.
  void append(std::string name, LayerPointer layer);
};

struct TransformerShape {
  std::int64_t tokens = 1;
  std::int64_t positions = 1;
  std::int64_t width = 1;
  std::int64_t heads = 1;
  std::int64_t blocks = 1;
  double dropout = 0;
};
/// Returns a model that predicts the next token. It has an embedding, transformer blocks, a layer norm and a
/// linear layer. The MLPs have a hidden width of 4 * width.
Model transformer(const TransformerShape& shape);

struct SplitOptions {
  std::uint64_t seed = 1;             ///< seed of the random initial weights
  at::ScalarType type = at::kDouble;  ///< type of weights and activations
  at::Device device = at::Device(at::kCPU);
  /// True for each stage whose weights are drawn at random, by stage. If the list is empty, the weights of
  /// all stages are drawn.
  std::vector<bool> drawn{};
};

/// A division of a model into stages: for each stage, the indices of its pieces.
using Cut = std::vector<std::vector<std::int32_t>>;
/// Returns a division in which each stage has consecutive pieces. The numbers of pieces of two stages
/// differ by at most one. If there are more stages than pieces, some stages are empty. Requires stages >=
/// 1.
Cut even_cut(const Model& model, std::int32_t stages);

/// Returns one definition for each stage of the cut. The weights of a piece depend on the seed and the
/// piece's index, not on the cut. A stage without a piece returns its input. Each piece must be in exactly
/// one stage, and not in an earlier stage than the pieces that it reads. If several tensors pass between
/// two stages, they are flattened and concatenated. `input` must then be one microbatch of the model's
/// input, which determines the tensors' shapes.
std::vector<StageDefinition> split(const Model& model, const Cut& cut, const SplitOptions& options,
                                   const at::Tensor& input = {});

// The networks that a scenario can name (`model.network`), and random data to train them.

/// A source of random data for training. The data of a microbatch depend only on the number of the
/// microbatch.
struct RandomData {
  std::vector<std::int64_t> shape;  ///< shape of a microbatch
  /// The exclusive upper limit of the data, which are then whole numbers from 0 to below - 1. If `below` is
  /// 0, the data are normally distributed.
  std::int64_t below = 0;
  std::uint64_t use = 0;  ///< number that is different for inputs and targets, so that their data differ
  at::ScalarType noise = at::kFloat;  ///< type of normally distributed data

  at::Tensor of(std::int32_t microbatch) const;
};

/// A model, and the random inputs and targets with which it is trained.
struct Network {
  Model model;
  RandomData inputs;
  RandomData targets;
  at::ScalarType type = at::kFloat;  ///< type of weights and activations
  /// True if the stages were exported from PyTorch. Such stages form a chain, and are valid for one device
  /// and one shape only.
  bool exported = false;
  at::DeviceType device = at::kCPU;  ///< device on which exported stages run
};

/// One size of a network, such as a width, that the user can set.
struct NetworkSize {
  std::string_view name;
  std::int64_t usual = 1;  ///< default value of this size
  std::string_view meaning;
};
/// The description of one network.
struct NetworkInfo {
  std::string_view name;
  std::string_view summary;
  std::vector<NetworkSize> sizes;
};
const std::vector<NetworkInfo>& network_table();

/// Returns the network that `spec` names, for microbatches of `samples` samples. Networks of the table
/// compute in single precision, and exported graphs in their own type. Fails if the name or a size is
/// unknown, if sizes do not fit together, or if graphs cannot be read. The error begins with the position
/// of `spec` in the scenario file.
tl::expected<Network, std::string> make_network(const NetworkSpec& spec, std::int64_t samples);

/// Returns the name of a piece in profiles and scenarios, such as "Linear-3".
std::string piece_name(const Model& model, std::int32_t piece);

// Converts exceptions of LibTorch to errors while a network is built. For example, LibTorch throws if the
// user has chosen sizes that exceed the memory.

/// Calls `make` and returns its result, which must be a tl::expected with a text as its error. If LibTorch
/// throws, returns an error. Its text has the network's name, its position in the file, and LibTorch's text
/// without the backtrace.
template <class Make>
std::invoke_result_t<Make> made_network(const NetworkSpec& spec, Make make) {
  try {
    return make();
  } catch (const c10::Error& error) {
    return tl::unexpected(
        (spec.place.empty() ? std::string() : spec.place + ": ") + "the network " + spec.name +
        " cannot be made with these sizes; take smaller ones: " + error.what_without_backtrace());
  }
}

// Cuts the network of an experiment into the experiment's stages. The module families for CPUs and GPUs use
// it.

struct CutNetwork {
  Network network;
  Cut cut;  ///< the layers (Piece) that each stage of the program runs
  OptimizerOptions optimizer;
};

/// Makes the network of the experiment and cuts it into the program's stages. Requires experiment.network.
/// Fails if the network, a size or a layer is unknown. Also fails if the program's stages do not form a
/// chain, or if its microbatches are sliced.
tl::expected<CutNetwork, std::string> cut_network(const Experiment& experiment);

// A network that was exported from PyTorch by tools/export_stages.py. Each exported stage is one piece of the
// model, so a user's own module runs under every schedule.

/// Returns the network that was exported to `folder`. This function reads `folder`/stages.json and the
/// TorchScript file of each stage. `samples` must be the number of samples in the exported example, because
/// an exported graph is valid for one shape only. Fails if a file is missing, cannot be read or has another
/// format, or if `samples` differs. The error names the file.
tl::expected<Network, std::string> graph_network(const std::string& folder, std::int64_t samples);

// Declares what is only available with LibTorch: the module family that runs a network on cpu-thread and
// cpu-process, and the profile of the network's layers. This header includes no header of LibTorch.

/// Returns the family of modules that train experiment.network on the CPU. The experiment must have a
/// network and outlive the result. This function switches off LibTorch's own threads for the whole process,
/// so each stage computes on the thread that calls it. Fails if cut_network() fails.
tl::expected<std::unique_ptr<ModuleFamily>, std::string> network_family(const Experiment& experiment);

// Measures each layer of a network separately, like PipeDream's profiler (Narayanan et al., SOSP'19, section
// 3.1). `penstock profile` writes the result, and `penstock plan` reads it.

/// Measures each piece of the network on the calling thread: the times of F and B, the output bytes and the
/// weight bytes. Returns them as a graph of layers. A layer has the name of piece_name() and the inputs of
/// the piece. Fails if make_network() fails.
tl::expected<LayerGraph, std::string> profile_network(const NetworkSpec& spec, const ProfileOptions& options);

}  // namespace penstock::nn
