// From a walk over the flat lists (times by place) to the spans that everything in report/ shows. A compute
// action's span is its own start and end; that of a transfer or collective is its message's, which both ends
// share, so the k-th SEND and its RECV show the same bar. Barriers are nobody's action and leave no span.

#include "report/timeline/walk_timeline.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

Timeline timeline_of(const FlatProgram& flat, const Placement& placement, const ProgramTimes& times) {
  Timeline timeline{.rank_count = flat.rank_count, .spans = {}};
  timeline.spans.reserve(flat.ops.size());
  for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) {
    std::vector<std::int32_t> replica(placement.stages.size());
    for (std::size_t stage = 0; stage < replica.size(); ++stage) {
      replica[stage] = placement.replica_on(static_cast<std::int32_t>(stage), rank);
    }
    const auto end = static_cast<std::size_t>(flat.rank_begin[static_cast<std::size_t>(rank) + 1]);
    for (auto p = static_cast<std::size_t>(flat.rank_begin[static_cast<std::size_t>(rank)]); p < end; ++p) {
      if (flat.ops[p] == FlatOp::barrier) continue;
      const Action& action = flat.actions[p];
      const bool moves = flat.message[p] != kNone;
      const auto message = static_cast<std::size_t>(flat.message[p]);
      timeline.spans.push_back({.rank = rank,
                                .action = action,
                                .replica = replica[static_cast<std::size_t>(action.stage)],
                                .start_ns = moves ? times.message_start[message] : times.start[p],
                                .end_ns = moves ? times.message_end[message] : times.end[p]});
      timeline.makespan_ns = std::max(timeline.makespan_ns, timeline.spans.back().end_ns);
    }
  }
  return timeline;
}

}  // namespace penstock
