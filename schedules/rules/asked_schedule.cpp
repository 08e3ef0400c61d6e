
#include "schedules/rules/asked_schedule.hpp"

#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/rules/schedule_names.hpp"
#include "schedules/rules/shape_checks.hpp"

namespace penstock {

tl::expected<AskedSchedule, std::string> asked_schedule(std::string_view name, const Shape& shape) {
  const ScheduleInfo* schedule = find_schedule(name);
  if (schedule == nullptr) return tl::unexpected("schedule: " + unknown_schedule(name));
  if (auto given = check_given(*schedule, shape); !given) return tl::unexpected(given.error());
  AskedSchedule asked{.schedule = schedule, .shape = shape};
  asked.shape.virtual_stages = chunks_of(*schedule, shape);
  if (auto size = check_possible_size(asked.shape); !size) return tl::unexpected(size.error());
  return asked;
}

}  // namespace penstock
