// The critical-path engine: with fixed durations the start of every action is the longest path to it, and one
// pass over the program's tape finds all of them. A program that hangs has no tape; the walk says where it
// stalls.

#include <optional>
#include <utility>

#include <tl/expected.hpp>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/launch_order.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/check/stalled_walk.hpp"
#include "schedules/check/walk.hpp"
#include "sim/engines/compile.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

tl::expected<EngineRun, Hang> critical_path_run(const Experiment& experiment) {
  FlatProgram flat = flatten(experiment.program, experiment.costs,
                             {.channels = experiment.channels, .iterations = experiment.program.iterations});
  std::optional<Tape> tape = compile(flat, experiment.channels, microbatch_groups(experiment.costs));
  if (!tape) {
    const WalkState stalled = walk(flat, {}, experiment.channels).error();
    return tl::unexpected(hang_of(flat, stalled, experiment.channels));
  }
  // A launch order says who can hang and changes no time, so that the tape knows nothing of it.
  if (auto hang = find_launch_hang(flat, experiment.channels)) return tl::unexpected(*std::move(hang));
  TapeCosts costs = tape_costs(*tape, experiment);
  ProgramTimes times = times_of(*tape, costs, flat, experiment.channels);
  return EngineRun{.flat = std::move(flat),
                   .times = std::move(times),
                   .tape = PricedTape{.tape = *std::move(tape), .costs = std::move(costs)}};
}

}  // namespace penstock
