#include "schedules/rules/extra_stages.hpp"

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

ExtraStages extra_stages_of(std::string_view schedule) {
  constexpr std::array kExtra = {
      std::pair{std::string_view("1f1b-vocab-1"), ExtraStages::output_slices},
      std::pair{std::string_view("1f1b-vocab-2"), ExtraStages::output_slices_inputs},
      std::pair{std::string_view("1f1b-encoder-first"), ExtraStages::encoder},
      std::pair{std::string_view("1f1b-encoder-bubbles"), ExtraStages::encoder}};
  const ScheduleInfo* const row = find_schedule(schedule);
  if (row == nullptr) return ExtraStages::none;
  for (const auto& [name, extra] : kExtra) {
    if (name == row->name) return extra;
  }
  return ExtraStages::none;
}

ExtraStages extra_stages_of(const Program& program) {
  const ExtraStages extra = extra_stages_of(program.schedule);
  const std::int32_t stages = program.stage_count();
  return with_extra_stages(extra, layer_stages(extra, stages)) == stages ? extra : ExtraStages::none;
}

}  // namespace penstock
