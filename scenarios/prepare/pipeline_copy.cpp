// Copies do the same at the same time, so one of them is a scenario of its own, whose batch is a part of the
// whole. Its program says how many stages there are for the layers, and where they lie.

#include "scenarios/prepare/pipeline_copy.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/prepare/compute_program.hpp"
#include "scenarios/prepare/schedule_in_force.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

std::vector<std::int32_t> ranks_of_stages(const Program& program) {
  std::vector<std::int32_t> ranks;
  ranks.reserve(static_cast<std::size_t>(program.stage_count()));
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage)
    ranks.push_back(program.placement.rank_of(stage, 0));
  return ranks;
}

tl::expected<PipelineCopy, std::string> pipeline_copy(const Scenario& scenario, std::int32_t copies,
                                                      const LayerSplit& split, std::int64_t layers) {
  auto batch = batch_of_copy(scenario.batch, copies);
  if (!batch) return tl::unexpected(batch.error());
  const auto in_force = schedule_in_force(scenario, *batch);
  if (!in_force) return tl::unexpected(in_force.error());
  // So that the copy is resolved alike when it is prepared.
  if (scenario.program) batch->microbatches = in_force->batch.microbatches;
  auto placed = placed_program(in_force->schedule);
  if (!placed) return tl::unexpected(placed.error());
  auto layers_of_stages = split_layers(split, layers, placed->stage_count());
  if (!layers_of_stages) return tl::unexpected(layers_of_stages.error());
  std::vector<std::int32_t> ranks = ranks_of_stages(*placed);
  return PipelineCopy{.batch = *std::move(batch),
                      .resolved = in_force->batch,
                      .placed = *std::move(placed),
                      .layers = *std::move(layers_of_stages),
                      .rank_of_stage = std::move(ranks)};
}

}  // namespace penstock
