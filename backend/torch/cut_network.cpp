// Decides which pieces of a network each stage holds. If the model comes from a profile, the names of the
// scenario's layers decide. Otherwise the pieces are distributed evenly. Each piece must be named exactly
// once. Otherwise a profile of other sizes would silently train another network.

#include "backend/torch/cut_network.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "backend/torch/models.hpp"
#include "backend/torch/networks.hpp"
#include "backend/torch/optimizer.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"

namespace penstock::nn {
namespace {

OptimizerOptions options_of(penstock::Optimizer optimizer) {
  using penstock::Optimizer;  // the enum, not the class Optimizer of this namespace
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

/// Returns the pieces of each stage according to the names of the scenario's layers. Error: a name is
/// unknown, or a piece is not named exactly once.
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
      // The name is removed, so that a second use of it is an error.
      unused.erase(found);
    }
    std::ranges::sort(cut.back());
  }
  if (unused.empty()) return cut;
  return tl::unexpected(network.spec.place + ": the model lacks the network's layer \"" +
                        unused.begin()->first + "\"; profile the network again, or correct its sizes");
}

/// Returns true if each stage sends only to the next one. A program that does not list its edges is a chain.
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
