// Copies do the same at the same time, so one of them is a scenario of its own: its batch is a part of the
// whole, and a program file says how many microbatches a copy has.

#include "scenarios/prepare/pipeline_copy.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/prepare/compute_program.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

tl::expected<PipelineCopy, std::string> pipeline_copy(const Scenario& scenario, std::int32_t copies) {
  auto batch = batch_of_copy(scenario.batch, copies);
  if (!batch) return tl::unexpected(batch.error());
  if (scenario.program) batch->microbatches = scenario.program->microbatches;
  const auto resolved = resolve_batch(*batch, meaning_of_microbatch(scenario.schedule));
  if (!resolved) return tl::unexpected(resolved.error());
  StatedSchedule schedule{.program = scenario.program ? &*scenario.program : nullptr,
                          .name = scenario.schedule,
                          .shape = scenario.shape};
  schedule.shape.microbatches = resolved->microbatches;
  return PipelineCopy{.batch = *batch, .resolved = *resolved, .schedule = std::move(schedule)};
}

std::vector<std::int32_t> ranks_of_stages(const Program& program) {
  std::vector<std::int32_t> ranks;
  ranks.reserve(static_cast<std::size_t>(program.stage_count()));
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage)
    ranks.push_back(program.placement.rank_of(stage, 0));
  return ranks;
}

}  // namespace penstock
