// A model of layers is cut between them by the scenario's partition; any other has its stages already.
//
//   layers   a b c | d      partition [3]      ends  3 4

#include "scenarios/prepare/stage_cut.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"

namespace penstock {

tl::expected<StageCut, std::string> cut_model(const Model& model, const Partition& partition,
                                              std::int32_t stages) {
  const auto* graph = std::get_if<LayerGraph>(&model);
  if (graph == nullptr) return StageCut{.stages = stages};
  auto cuts = cut_layers(*graph, partition, stages);
  if (!cuts) return tl::unexpected(cuts.error());
  cuts->push_back(static_cast<std::int32_t>(graph->layers.size()));
  return StageCut{.stages = stages, .ends = *std::move(cuts)};
}

}  // namespace penstock
