#pragma once
// The two engines compute the times of an experiment's program, or its Timeline. Both follow the rules of
// schedules/check/rendezvous_walk.hpp. If no link is shared, they agree to the nanosecond.

#include <array>
#include <cstdint>
#include <optional>

#include <tl/expected.hpp>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

enum class Engine : std::uint8_t {
  automatic,  // event if links_are_shared(), otherwise critical_path
  critical_path,
  event,
};
template <>
inline constexpr auto kEnumWords<Engine> = std::to_array<EnumWord<Engine>>(
    {{Engine::automatic, "auto"}, {Engine::critical_path, "critical-path"}, {Engine::event, "event"}});

/// The run of an experiment in an engine: the flat program, and the start and end of each action and
/// message.
struct EngineRun {
  FlatProgram flat;
  ProgramTimes times;
  std::optional<PricedTape> tape{};  ///< tape from which the times were computed; absent for the event engine
};

/// Runs the critical-path engine: it finds the times as longest paths, as if no two transfers shared a
/// link. It makes one pass over a tape and needs no event queue. Returns an error if the program hangs
/// under the experiment's channel options.
tl::expected<EngineRun, Hang> critical_path_run(const Experiment& experiment);

/// Runs the event engine: it finds the times with discrete events. Transfers and collectives that cross a
/// link at the same time share its bandwidth max-min fairly. Returns an error if the program hangs under
/// the experiment's channel options.
tl::expected<EngineRun, Hang> event_run(const Experiment& experiment);

/// Returns true if two streams of messages cross the same link of limited bandwidth, so that contention may
/// change times. A stream is all messages between two ranks, or a collective.
bool links_are_shared(const Experiment& experiment);
/// Returns true under the same condition as links_are_shared(), but for all messages that the stages may
/// send to each other. It does not read the program's lists.
bool stages_share_links(const Experiment& experiment);

/// Returns the engine that `automatic` stands for in this experiment. Returns every other value of `engine`
/// unchanged.
Engine resolve(const Experiment& experiment, Engine engine);

/// Runs an experiment with the given engine. `automatic` stands for the engine that resolve() returns.
tl::expected<EngineRun, Hang> run_engine(const Experiment& experiment, Engine engine);

/// Return the timelines of critical_path_run() and event_run().
tl::expected<Timeline, Hang> critical_path(const Experiment& experiment);
tl::expected<Timeline, Hang> event_simulation(const Experiment& experiment);

/// Runs the event engine with durations that the caller chooses, for example for the trials of risk.hpp.
/// Compute actions take `durations.compute`. A transfer arrives `durations.latency` after the links have
/// carried its bytes. The engine computes the time on the links itself and ignores `durations.hold`. Requires
/// a program that does not hang, flattened for the experiment's channels.
ProgramTimes event_walk(const Experiment& experiment, const FlatProgram& flat,
                        const WalkDurations& durations);

}  // namespace penstock
