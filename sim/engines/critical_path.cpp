// The critical-path engine: with fixed durations the start of every action is the longest path to it, and
// the rendezvous walk finds all of them in one pass over flat arrays. Most programs take its short cut.

#include <optional>
#include <utility>

#include <tl/expected.hpp>

#include "report/timeline/timeline.hpp"
#include "report/timeline/walk_timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/check/stalled_walk.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/in_order_walk.hpp"
#include "sim/network/message_costs.hpp"

namespace penstock {

tl::expected<Timeline, Hang> critical_path(const Experiment& experiment) {
  if (std::optional<Timeline> timeline = in_order_walk(experiment)) return *std::move(timeline);
  const FlatProgram flat =
      flatten(experiment.program, experiment.costs,
              {.channels = experiment.channels, .iterations = experiment.program.iterations});
  const auto times = walk(flat, walk_durations(experiment, flat), experiment.channels);
  if (!times) return tl::unexpected(hang_of(flat, times.error(), experiment.channels));
  return timeline_of(flat, experiment.program.placement, *times);
}

}  // namespace penstock
