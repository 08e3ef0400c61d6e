// The table of networks that a scenario can name. Each has a name, sizes with default values, and a
// function that builds it. The networks are small, because their only purpose is to test that a split
// model trains like an unsplit one. Together they have chains, residual and parallel branches,
// convolutions and attention. The random data depend only on the microbatch's number, so every rank can
// generate them. Tests: tests/backend_torch/networks_test.cpp.

#include "backend/torch/networks.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <tl/expected.hpp>

#include "backend/torch/layers.hpp"
#include "backend/torch/stage_weights.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/program.hpp"
#include "text/enum_words.hpp"

namespace penstock::nn {

namespace {

using Sizes = std::map<std::string, std::int64_t, std::less<>>;

RandomData noise(std::vector<std::int64_t> shape, std::uint64_t use) {
  return {.shape = std::move(shape), .use = use};
}

RandomData numbers(std::int64_t below, std::vector<std::int64_t> shape, std::uint64_t use) {
  return {.shape = std::move(shape), .below = below, .use = use};
}

Network mlp_network(const Sizes& sizes, std::int64_t samples) {
  const std::int64_t width = sizes.at("width");
  Network network{.model = {}, .inputs = noise({samples, width}, 1), .targets = noise({samples, width}, 2)};
  for (std::int64_t layer = 0; layer < sizes.at("layers"); ++layer) {
    network.model.append("Linear", linear(width, width));
    network.model.append("GELU", gelu());
  }
  network.model.append("Linear", linear(width, width));
  return network;
}

Network images_to_classes(const Sizes& sizes, std::int64_t samples) {
  const std::int64_t image = sizes.at("image");
  return {.model = {.pieces = {}, .loss = Loss::cross_entropy},
          .inputs = noise({samples, sizes.at("channels"), image, image}, 1),
          .targets = numbers(sizes.at("classes"), {samples}, 2)};
}

Network conv_network(const Sizes& sizes, std::int64_t samples) {
  const std::int64_t width = sizes.at("width");
  Network network = images_to_classes(sizes, samples);
  std::int64_t channels = sizes.at("channels");
  for (std::int64_t block = 0; block < sizes.at("blocks"); ++block) {
    network.model.append("Conv2d", convolution({.inputs = channels, .outputs = width}));
    network.model.append("GELU", gelu());
    channels = width;
  }
  network.model.append("MeanPool", mean_pool());
  network.model.append("Linear", linear(width, sizes.at("classes")));
  return network;
}

/// Each block adds the outputs of two branches, one with two convolutions and one with a single convolution:
///
///     GELU -+-> Conv2d -> GELU -> Conv2d -+-> GELU
///           +-> Conv2d -------------------+
Network branch_network(const Sizes& sizes, std::int64_t samples) {
  const std::int64_t width = sizes.at("width");
  Network network = images_to_classes(sizes, samples);
  Model& model = network.model;
  const ConvolutionShape square{.inputs = width, .outputs = width};
  model.append("Conv2d", convolution({.inputs = sizes.at("channels"), .outputs = width}));
  for (std::int64_t block = 0; block < sizes.at("blocks"); ++block) {
    model.append("GELU", gelu());
    const auto fork = static_cast<std::int32_t>(model.pieces.size()) - 1;
    model.append("Conv2d", convolution(square));
    model.append("GELU", gelu());
    model.append("Conv2d", convolution(square));
    model.append("Conv2d", convolution(square));
    model.pieces.back().inputs = {fork};
    const auto last = static_cast<std::int32_t>(model.pieces.size()) - 1;
    model.append("GELU", gelu());
    model.pieces.back().inputs = {last - 1, last};
  }
  model.append("MeanPool", mean_pool());
  model.append("Linear", linear(width, sizes.at("classes")));
  return network;
}

Network transformer_network(const Sizes& sizes, std::int64_t samples) {
  const std::int64_t tokens = sizes.at("tokens");
  const std::int64_t positions = sizes.at("positions");
  return {.model = transformer({.tokens = tokens,
                                .positions = positions,
                                .width = sizes.at("width"),
                                .heads = sizes.at("heads"),
                                .blocks = sizes.at("blocks")}),
          .inputs = numbers(tokens, {samples, positions}, 1),
          .targets = numbers(tokens, {samples, positions}, 2)};
}

/// An entry of the table of networks. It has the description of a network and the function that builds the
/// network from its sizes.
struct Builder {
  NetworkInfo info;
  Network (*build)(const Sizes&, std::int64_t samples);
};

const std::vector<Builder>& builders() {
  static const std::vector<NetworkSize> images = {{"blocks", 4, "of convolutions"},
                                                  {"width", 16, "channels inside"},
                                                  {"image", 32, "height and width of the images"},
                                                  {"channels", 3, "of the images"},
                                                  {"classes", 10, "that images are sorted into"}};
  static const std::vector<Builder> all = {
      {{"mlp",
        "linear layers of one width with GELU between them, mean squared error",
        {{"layers", 8, "each followed by GELU; one more ends the network"}, {"width", 256, "of all layers"}}},
       mlp_network},
      {{"conv-net", "convolutions with GELU, mean over the image, a linear layer, cross entropy", images},
       conv_network},
      {{"branch-net", "as conv-net, but each block is the sum of two branches", images}, branch_network},
      {{"transformer",
        "embedding, pre-norm blocks with causal attention, a linear layer, cross entropy",
        {{"blocks", 4, "of attention and MLP"},
         {"width", 128, "of the residual stream"},
         {"heads", 4, "of attention; divide the width"},
         {"tokens", 256, "of the vocabulary"},
         {"positions", 64, "of the sequence"}}},
       transformer_network}};
  return all;
}

std::string listed(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

std::string unknown(std::string_view what, std::string_view word,
                    const std::vector<std::string_view>& known) {
  const std::string hint = did_you_mean(word, known);
  return "there is no " + std::string(what) + " \"" + std::string(word) + "\"" + (hint.empty() ? "." : hint) +
         " Known: " + listed(known);
}

/// The largest value that a size of a network may have. Products of a few sizes must fit into 64 bits.
constexpr std::int64_t kLargestSize = 1 << 20;

tl::expected<Sizes, std::string> sizes_of(const NetworkInfo& info, const NetworkSpec& spec) {
  Sizes sizes;
  std::vector<std::string_view> names;
  for (const NetworkSize& size : info.sizes) {
    sizes[std::string(size.name)] = size.usual;
    names.push_back(size.name);
  }
  for (const auto& [name, value] : spec.sizes) {
    if (!sizes.contains(name))
      return tl::unexpected(unknown("size of " + std::string(info.name), name, names));
    if (value > kLargestSize) {
      return tl::unexpected("expected a " + name + " of at most " + std::to_string(kLargestSize) + ", got " +
                            std::to_string(value));
    }
    sizes[name] = value;
  }
  const bool has_heads = sizes.contains("heads");
  if (has_heads && sizes.at("width") % sizes.at("heads") != 0) {
    return tl::unexpected("the heads must divide the width, got " + std::to_string(sizes.at("heads")) +
                          " heads and a width of " + std::to_string(sizes.at("width")));
  }
  return sizes;
}

tl::unexpected<std::string> at_place(const NetworkSpec& spec, const std::string& text) {
  return tl::unexpected<std::string>(spec.place.empty() ? text : spec.place + ": " + text);
}

}  // namespace

at::Tensor RandomData::of(std::int32_t microbatch) const {
  // `use` is different for inputs and targets, so the two have different data in the same microbatch.
  const at::Generator generator =
      at::make_generator<at::CPUGeneratorImpl>(mixed(mixed(static_cast<std::uint64_t>(microbatch)) ^ use));
  return below > 0 ? at::randint(below, shape, generator, at::kLong) : at::randn(shape, generator, noise);
}

const std::vector<NetworkInfo>& network_table() {
  static const std::vector<NetworkInfo> table = [] {
    std::vector<NetworkInfo> rows;
    for (const Builder& builder : builders()) rows.push_back(builder.info);
    return rows;
  }();
  return table;
}

tl::expected<Network, std::string> make_network(const NetworkSpec& spec, std::int64_t samples) {
  if (!spec.graphs.empty()) {
    auto graphs = graph_network(spec.graphs, samples);
    if (!graphs) return at_place(spec, graphs.error());
    return graphs;
  }
  const auto found =
      std::ranges::find(builders(), spec.name, [](const Builder& builder) { return builder.info.name; });
  if (found == builders().end()) {
    std::vector<std::string_view> names;
    for (const Builder& builder : builders()) names.push_back(builder.info.name);
    return at_place(spec, unknown("network", spec.name, names));
  }
  const auto sizes = sizes_of(found->info, spec);
  if (!sizes) return at_place(spec, sizes.error());
  return found->build(*sizes, samples);
}

std::string piece_name(const Model& model, std::int32_t piece) {
  return model.pieces[static_cast<std::size_t>(piece)].name + "-" + std::to_string(piece);
}

// Decides which pieces of a network each stage holds. If the model comes from a profile, the names of the
// scenario's layers decide, and each piece must be named exactly once. Without this check, a profile of a
// network with other sizes would train another network without an error. If there is no profile, the pieces
// are distributed evenly.

namespace {

OptimizerOptions options_of(penstock::Optimizer optimizer) {
  using penstock::Optimizer;  // the enum of penstock, not the class Optimizer of this namespace
  switch (optimizer) {
    case Optimizer::sgd:
      return {.kind = OptimizerKind::sgd};
    case Optimizer::momentum:
      return {.kind = OptimizerKind::sgd, .momentum = 0.9};
    case Optimizer::rmsprop:
      return {.kind = OptimizerKind::rmsprop};
    case Optimizer::adam:
      return {.kind = OptimizerKind::adam};
  }
  return {};
}

/// Returns the pieces of each stage, as the names of the scenario's layers determine them. Fails if a name
/// is unknown or if a piece is not named exactly once.
tl::expected<Cut, std::string> cut_by_names(const Model& model, const StagedNetwork& network) {
  std::map<std::string, std::int32_t, std::less<>> unused;
  std::vector<std::string> all;
  for (std::int32_t piece = 0; piece < static_cast<std::int32_t>(model.pieces.size()); ++piece) {
    all.push_back(piece_name(model, piece));
    unused[all.back()] = piece;
  }
  Cut cut;
  for (const std::vector<std::string>& names : network.layers) {
    cut.emplace_back();
    for (const std::string& name : names) {
      const auto found = unused.find(name);
      if (found == unused.end()) {
        return tl::unexpected(network.spec.place + ": the model has a layer \"" + name + "\", the network " +
                              network.spec.name + " with these sizes has not; its layers go from " +
                              all.front() + " to " + all.back() + ". Profile it again, or correct the sizes");
      }
      cut.back().push_back(found->second);
      // A used name is removed, so that a second use of the name is an error.
      unused.erase(found);
    }
    std::ranges::sort(cut.back());
  }
  if (unused.empty()) return cut;
  return tl::unexpected(network.spec.place + ": the model lacks the network's layer \"" +
                        unused.begin()->first + "\"; profile the network again, or correct its sizes");
}

/// Returns true if each stage sends only to the next stage. A program without a list of edges is a chain.
bool is_chain(const Program& program) {
  for (const StageEdge& edge : program.edges) {
    if (edge.to != edge.from + 1) return false;
  }
  return program.edges.empty() || std::ssize(program.edges) == program.stage_count() - 1;
}

}  // namespace

tl::expected<CutNetwork, std::string> cut_network(const Experiment& experiment) {
  const StagedNetwork& staged = experiment.network.value();
  const std::string place = staged.spec.place.empty() ? "" : staged.spec.place + ": ";
  if (!is_chain(experiment.program))
    return tl::unexpected(place + "a network runs on stages in a chain, this program's stages branch");
  if (experiment.program.slices > 1)
    return tl::unexpected(place + "a network runs on whole microbatches, this program slices them");
  auto network = make_network(staged.spec, std::llround(experiment.samples_per_microbatch));
  if (!network) return tl::unexpected(std::move(network.error()));
  tl::expected<Cut, std::string> cut = staged.layers.empty()
                                           ? even_cut(network->model, experiment.program.stage_count())
                                           : cut_by_names(network->model, staged);
  if (!cut) return tl::unexpected(std::move(cut.error()));
  return CutNetwork{
      .network = *std::move(network), .cut = *std::move(cut), .optimizer = options_of(staged.optimizer)};
}

}  // namespace penstock::nn
