// The critical-path engine: with fixed durations the start of every action is the longest path to it, and
// the rendezvous walk finds all of them in one pass over flat arrays.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tl/expected.hpp>

#include "report/timeline.hpp"
#include "scenarios/experiment.hpp"
#include "schedules/action.hpp"
#include "schedules/channel_check.hpp"
#include "schedules/flat_program.hpp"
#include "schedules/program.hpp"
#include "schedules/rendezvous_walk.hpp"
#include "sim/engines.hpp"
#include "sim/message_costs.hpp"

namespace penstock {

Timeline timeline_of(const Experiment& experiment, const FlatProgram& flat, const Walk& walk) {
  Timeline timeline{.rank_count = flat.rank_count, .spans = {}};
  timeline.spans.reserve(flat.ops.size());
  const Placement& placement = experiment.program.placement;
  for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) {
    std::vector<std::int32_t> replica(placement.stages.size());
    for (std::size_t stage = 0; stage < replica.size(); ++stage) {
      replica[stage] = placement.replica_on(static_cast<std::int32_t>(stage), rank);
    }
    const auto end = static_cast<std::size_t>(flat.rank_begin[static_cast<std::size_t>(rank) + 1]);
    for (auto p = static_cast<std::size_t>(flat.rank_begin[static_cast<std::size_t>(rank)]); p < end; ++p) {
      if (flat.ops[p] == FlatOp::barrier) continue;
      const std::int32_t message = flat.message[p];
      const Action& action = flat.actions[p];
      timeline.spans.push_back(
          {.rank = rank,
           .action = action,
           .replica = replica[static_cast<std::size_t>(action.stage)],
           .start_ns =
               message == kNone ? walk.start[p] : walk.message_start[static_cast<std::size_t>(message)],
           .end_ns = message == kNone ? walk.end[p] : walk.message_end[static_cast<std::size_t>(message)]});
      timeline.makespan_ns = std::max(timeline.makespan_ns, timeline.spans.back().end_ns);
    }
  }
  return timeline;
}

tl::expected<Timeline, Hang> critical_path(const Experiment& experiment) {
  const FlatProgram flat =
      flatten(experiment.program, experiment.costs,
              {.channels = experiment.channels, .iterations = experiment.program.iterations});
  const Walk walked = walk(flat, walk_durations(experiment, flat), experiment.channels);
  if (!walked.finished) {
    return tl::unexpected(*find_hang(experiment.program, experiment.channels, experiment.costs));
  }
  return timeline_of(experiment, flat, walked);
}

}  // namespace penstock
