// The critical-path engine: with fixed durations the start of every action is the longest path to it, and
// the rendezvous walk finds all of them in one pass over flat arrays. Most programs take its short cut.

#include <optional>
#include <utility>

#include <tl/expected.hpp>

#include "report/timeline.hpp"
#include "report/walk_timeline.hpp"
#include "scenarios/experiment.hpp"
#include "schedules/channel_check.hpp"
#include "schedules/flat_program.hpp"
#include "schedules/rendezvous_walk.hpp"
#include "sim/engines.hpp"
#include "sim/in_order_walk.hpp"
#include "sim/message_costs.hpp"

namespace penstock {

tl::expected<Timeline, Hang> critical_path(const Experiment& experiment) {
  if (std::optional<Timeline> timeline = in_order_walk(experiment)) return *std::move(timeline);
  const FlatProgram flat =
      flatten(experiment.program, experiment.costs,
              {.channels = experiment.channels, .iterations = experiment.program.iterations});
  const Walk walked = walk(flat, walk_durations(experiment, flat), experiment.channels);
  if (!walked.finished) {
    return tl::unexpected(*find_hang(experiment.program, experiment.channels, experiment.costs));
  }
  return timeline_of(flat, experiment.program.placement, walked);
}

}  // namespace penstock
