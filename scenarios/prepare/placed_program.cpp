// Where stages are depends neither on costs nor on buckets: the program that is generated without them says
// how many stages the model is cut into and which links lie between them.

#include "scenarios/prepare/placed_program.hpp"

#include <string>

#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

tl::expected<Program, std::string> placed_program(const StatedSchedule& schedule) {
  Shape shape = schedule.shape;
  if (schedule.program != nullptr) {
    if (shape.buckets.empty()) return *schedule.program;
    return tl::unexpected(std::string("schedule.buckets: a program has its own stages; leave it out"));
  }
  shape.buckets.clear();
  // A limit counts bytes, which nobody knows yet; it is kept when the order is searched
  // (compute_program.cpp).
  if (schedule.weighs_costs) shape.memory_limit.clear();
  return generate(schedule.name, shape);
}

}  // namespace penstock
