// Passes that write a program's lists anew copy all other fields with this function. A field that is
// forgotten here is lost in lowering.

#include "schedules/passes/list_writer.hpp"

#include "schedules/ir/program.hpp"

namespace penstock {

Program without_lists(const Program& program) {
  return {.schedule = program.schedule,
          .microbatches = program.microbatches,
          .slices = program.slices,
          .iterations = program.iterations,
          .barrier = program.barrier,
          .mixed_versions = program.mixed_versions,
          .update = program.update,
          .recompute = program.recompute,
          .sharding = program.sharding,
          .channel = program.channel,
          .placement = program.placement,
          .edges = program.edges};
}

}  // namespace penstock
