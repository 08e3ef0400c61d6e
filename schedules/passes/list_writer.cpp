// Passes that write new lists copy all other fields of the program with this function. If a field is missing
// here, lowering loses it.

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
