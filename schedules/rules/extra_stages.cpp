#include "schedules/rules/extra_stages.hpp"

#include <cstdint>
#include <string_view>

#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

ExtraStages extra_stages_of(std::string_view schedule) {
  const ScheduleInfo* const row = find_schedule(schedule);
  return row == nullptr ? ExtraStages::none : row->extra_stages;
}

ExtraStages extra_stages_of(const Program& program) {
  const ExtraStages extra = extra_stages_of(program.schedule);
  const std::int32_t stages = program.stage_count();
  return with_extra_stages(extra, layer_stages(extra, stages)) == stages ? extra : ExtraStages::none;
}

}  // namespace penstock
