// Copies do the same at the same time, so one of them is a scenario of its own, whose batch is a part of the
// whole. Its program says how many stages there are for the layers, and where they lie.

#include "scenarios/prepare/pipeline_copy.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/prepare/placed_program.hpp"
#include "scenarios/prepare/schedule_in_force.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

tl::expected<PipelineCopy, std::string> pipeline_copy(const Scenario& scenario, std::int32_t copies,
                                                      const LayerSplit& split, std::int64_t layers) {
  const auto in_force = schedule_in_force_of_copy(scenario, copies);
  if (!in_force) return tl::unexpected(in_force.error());
  auto placed = placed_program(in_force->schedule);
  if (!placed) return tl::unexpected(placed.error());
  auto layers_of_stages = split_layers(split, layers, placed->stage_count());
  if (!layers_of_stages) return tl::unexpected(layers_of_stages.error());
  std::vector<std::int32_t> ranks = placed->placement.ranks_of_stages();
  return PipelineCopy{.batch = in_force->stated,
                      .resolved = in_force->batch,
                      .placed = *std::move(placed),
                      .layers = *std::move(layers_of_stages),
                      .rank_of_stage = std::move(ranks)};
}

}  // namespace penstock
