// The critical-path engine. If durations are fixed, an action starts at the end of the longest path to it.
// One pass over the program's tape finds the longest paths to all actions. A program that hangs has no tape;
// the channel check then explains the hang.

#include <optional>
#include <utility>

#include <tl/expected.hpp>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/launch_order.hpp"
#include "schedules/check/program_times.hpp"
#include "sim/engines/compile.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

tl::expected<EngineRun, Hang> critical_path_run(const Experiment& experiment) {
  FlatProgram flat = flatten(experiment.program, experiment.costs,
                             {.channels = experiment.channels, .iterations = experiment.program.iterations});
  std::optional<Tape> tape = compile(flat, experiment.channels, microbatch_groups(experiment.costs));
  // A program with crossed messages has no tape, unless the messages are eager.
  if (!tape || experiment.channels.eager_bytes > 0) {
    if (auto hang = find_hang(experiment.program, experiment.channels, experiment.costs))
      return tl::unexpected(*std::move(hang));
  }
  // A launch order can cause a hang but changes no time, so the tape does not contain it.
  if (auto hang = find_launch_hang(flat, experiment.channels)) return tl::unexpected(*std::move(hang));
  TapeCosts costs = tape_costs(*tape, experiment);
  ProgramTimes times = times_of(*tape, costs, flat, experiment.channels);
  return EngineRun{.flat = std::move(flat),
                   .times = std::move(times),
                   .tape = PricedTape{.tape = *std::move(tape), .costs = std::move(costs)}};
}

}  // namespace penstock
