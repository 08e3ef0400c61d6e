// Tests the networks that scenarios can name: equal results for all cuts, profiles, and bytes.

#include "backend/torch/networks.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <tl/expected.hpp>

#include "backend/torch/torch_stage.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/backend_torch/torch_run.hpp"

namespace penstock::nn {
namespace {

Network small(const std::string& name, std::map<std::string, std::int64_t> sizes) {
  auto network = make_network({.name = name, .sizes = std::move(sizes), .place = ""}, 2);
  if (!network) throw std::runtime_error(network.error());
  // Results for different cuts then differ only by rounding.
  network->inputs.noise = network->targets.noise = at::kDouble;
  return *std::move(network);
}

Network small_branches() {
  return small("branch-net", {{"blocks", 2}, {"width", 3}, {"image", 5}, {"channels", 2}, {"classes", 4}});
}

/// Runs one minibatch with GPipe and the cut `cut`. Returns the gradients of all pieces in the model's order.
Tensors gradients_of(const Network& network, const Cut& cut) {
  const auto stages = static_cast<std::int32_t>(cut.size());
  const Program program = complete(*generate("gpipe", {.stages = stages, .microbatches = 3}));
  const TorchRun run = run_on_threads(program, split(network.model, cut, {.seed = 7}, network.inputs.of(0)),
                                      {.inputs = [&](std::int32_t m) { return network.inputs.of(m); },
                                       .targets = [&](std::int32_t m) { return network.targets.of(m); },
                                       .optimizer = {},
                                       .loss_scale = 0.5,
                                       .observer = {}});
  EXPECT_EQ(run.error, "");
  std::vector<Tensors> of_piece(network.model.pieces.size());
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    const Tensors& gradient = run.record.gradients.at({stage, stage, 1});
    std::size_t next = 0;
    for (const std::int32_t piece : cut[static_cast<std::size_t>(stage)]) {
      for (std::size_t i = 0; i < network.model.pieces[static_cast<std::size_t>(piece)].layer->weight_count();
           ++i)
        of_piece[static_cast<std::size_t>(piece)].push_back(gradient.at(next++));
    }
  }
  Tensors all;
  for (const Tensors& piece : of_piece) all.insert(all.end(), piece.begin(), piece.end());
  return all;
}

/// Computes the branch network of two blocks as one expression.
at::Tensor branches_by_hand(const Tensors& w, const at::Tensor& images) {
  const auto conv = [&](std::size_t i, const at::Tensor& x) {
    return at::conv2d(x, w[2 * i], w[2 * i + 1], 1, 1);
  };
  at::Tensor x = conv(0, images);
  for (const std::size_t block : {std::size_t{0}, std::size_t{1}}) {
    x = at::gelu(x);
    x = at::gelu(conv(3 * block + 2, at::gelu(conv(3 * block + 1, x))) + conv(3 * block + 3, x));
  }
  return at::linear(x.mean({2, 3}), w[14], w[15]);
}

TEST(BranchNet, HasTheGradientsOfItsFormula) {
  const Network network = small_branches();
  const Cut whole = even_cut(network.model, 1);
  Tensors weights = split(network.model, whole, {.seed = 7})[0].weights;
  for (at::Tensor& weight : weights) weight.requires_grad_();
  at::Tensor loss = at::zeros({}, at::kDouble);
  for (const std::int32_t m : {0, 1, 2})
    loss = loss + 0.5 * at::cross_entropy_loss(branches_by_hand(weights, network.inputs.of(m)),
                                               network.targets.of(m));
  EXPECT_TRUE(near(gradients_of(network, whole), torch::autograd::grad({loss}, weights)));
}

TEST(BranchNet, HasTheSameGradientsHoweverItIsCut) {
  const Network network = small_branches();
  const Tensors whole = gradients_of(network, even_cut(network.model, 1));
  for (const std::int32_t stages : {2, 3, 4, 7}) {
    EXPECT_TRUE(near(gradients_of(network, even_cut(network.model, stages)), whole)) << stages << " stages";
  }
  ASSERT_EQ(network.model.pieces.size(), 15);
  // The stage of the short branch of the first block (5) follows the stage of the long branch (2, 3, 4). The
  // output of the long branch passes through it.
  const Cut behind = {{0, 1}, {2, 3, 4}, {5}, {6, 7, 8, 9, 10, 11, 12, 13, 14}};
  EXPECT_TRUE(near(gradients_of(network, behind), whole));
  // The stage of the short branch comes first.
  const Cut before = {{0, 1}, {5}, {2, 3, 4}, {6, 7, 8, 9, 10, 11, 12, 13, 14}};
  EXPECT_TRUE(near(gradients_of(network, before), whole));
}

TEST(Networks, TrainAlikeInOneStageAndInMany) {
  const std::vector<Network> networks = {
      small("mlp", {{"layers", 3}, {"width", 4}}),
      small("conv-net", {{"blocks", 2}, {"width", 3}, {"image", 5}, {"classes", 4}}),
      small("transformer", {{"blocks", 2}, {"width", 4}, {"heads", 2}, {"tokens", 7}, {"positions", 4}})};
  for (const Network& network : networks) {
    const Tensors whole = gradients_of(network, even_cut(network.model, 1));
    EXPECT_FALSE(whole.empty());
    EXPECT_TRUE(near(gradients_of(network, even_cut(network.model, 3)), whole));
  }
}

TEST(Networks, SayWhatTheyDoNotKnow) {
  const auto error_of = [](NetworkSpec spec) { return make_network(spec, 1).error(); };
  EXPECT_EQ(
      error_of({.name = "transfomer", .sizes = {}, .place = "a.yaml:1:3: model.network"}),
      "a.yaml:1:3: model.network: there is no network \"transfomer\"; did you mean transformer? Known: mlp, "
      "conv-net, branch-net, transformer");
  EXPECT_EQ(error_of({.name = "mlp", .sizes = {{"wide", 3}}, .place = ""}),
            "there is no size of mlp \"wide\". Known: layers, width");
  EXPECT_EQ(error_of({.name = "transformer", .sizes = {{"heads", 3}, {"width", 4}}, .place = ""}),
            "the heads must divide the width, got 3 heads and a width of 4");
  EXPECT_EQ(error_of({.name = "mlp", .sizes = {{"width", 99'999'999'999'999}}, .place = ""}),
            "expected a width of at most 1048576, got 99999999999999");
}

TEST(Networks, SizesThatLibTorchRefusesAreAnError) {
  const auto made = made_network({.name = "mlp", .sizes = {}, .place = "a.yaml:1:3"},
                                 []() -> tl::expected<int, std::string> {
                                   TORCH_CHECK(false, "can't allocate memory");
                                   return 0;
                                 });
  EXPECT_EQ(made.error(),
            "a.yaml:1:3: the network mlp cannot be made with these sizes; take smaller ones: can't allocate "
            "memory");
}

TEST(TensorCodec, BringsBackTypesSizesAndBits) {
  const TensorCodec codec;
  const TensorPayload sent({at::randn({2, 3}, at::kDouble), at::arange(5), at::zeros({0, 4}, at::kFloat),
                            at::randn({4, 2}, at::kFloat).t()});
  const Payload came = codec.decode(codec.encode(sent));
  const Tensors& tensors = dynamic_cast<const TensorPayload&>(*came).tensors;
  ASSERT_EQ(tensors.size(), 4);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(tensors[i].scalar_type(), sent.tensors[i].scalar_type());
    EXPECT_TRUE(at::equal(tensors[i], sent.tensors[i]));
  }
}

TEST(TensorCodec, RefusesAMessageThatIsCutShortOrLies) {
  const TensorCodec codec;
  const auto whole = codec.encode(TensorPayload({at::arange(5), at::zeros({2, 3}, at::kFloat)}));
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(codec.decode(std::span(whole).first(size)), std::runtime_error) << size;
  const auto with = [&](std::size_t at, std::uint8_t byte) {
    auto changed = whole;
    changed[at] = byte;
    return changed;
  };
  constexpr std::size_t kType = 4;  // the position of the type, after the count
  EXPECT_THROW(codec.decode(with(0, 255)), std::runtime_error) << "more tensors than there are";
  EXPECT_THROW(codec.decode(with(0, 1)), std::runtime_error) << "something behind the last tensor";
  EXPECT_THROW(codec.decode(with(kType, 255)), std::runtime_error) << "no type";
  EXPECT_THROW(codec.decode(with(kType + 1, 255)), std::runtime_error) << "255 dimensions";
  EXPECT_THROW(codec.decode(with(kType + 2 + 7, 0x7f)), std::runtime_error) << "9 quintillion elements";
  EXPECT_THROW(codec.decode(with(kType + 2 + 7, 0x80)), std::runtime_error) << "a negative size";
}

TEST(TensorCodec, KnowsHowLongAMessageIs) {
  for (const Tensors& tensors :
       {Tensors{}, Tensors{at::zeros({}, at::kFloat)}, Tensors{at::zeros({300, 7, 1, 2})},
        Tensors{at::zeros({70'000}, at::kDouble), at::zeros({0, 5})}}) {
    EXPECT_EQ(TensorCodec().encode(TensorPayload(tensors)).size(), TensorCodec::bytes_of(tensors));
  }
}

TEST(Profile, HasTheLayersOfTheNetworkWithTheirBytes) {
  const auto graph = profile_network(
      {.name = "branch-net", .sizes = {{"blocks", 1}, {"width", 3}, {"image", 5}}, .place = ""},
      {.samples = 2, .warmup = 1, .repeats = 3});
  ASSERT_TRUE(graph) << graph.error();
  ASSERT_EQ(graph->layers.size(), 9);
  EXPECT_EQ(graph->layers[0].name, "Conv2d-0");
  EXPECT_EQ(graph->layers[0].output, 2 * 3 * 5 * 5 * 4);
  EXPECT_EQ(graph->layers[0].weights, (3 * 3 * 3 * 3 + 3) * 4);
  EXPECT_EQ(graph->layers[6].inputs, (std::vector<std::int32_t>{4, 5}));
  EXPECT_EQ(graph->layers[8].name, "Linear-8");
  for (const auto& layer : graph->layers) {
    EXPECT_GT(layer.forward_ns, 0) << layer.name;
    EXPECT_GT(layer.backward_ns, 0) << layer.name;
  }
}

}  // namespace
}  // namespace penstock::nn
