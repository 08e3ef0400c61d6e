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

/// The run of an experiment: its program in flat form, and the starts and ends of all actions and messages.
struct EngineRun {
  FlatProgram flat;
  ProgramTimes times;
  std::optional<PricedTape> tape{};  ///< tape from which the times were computed; absent for the event engine
};

/// Finds the times as longest paths, as if no two transfers shared a link. It makes one pass over a tape and
/// needs no event queue. Error: the program hangs under the experiment's channel options.
tl::expected<EngineRun, Hang> critical_path_run(const Experiment& experiment);

/// Finds the times with discrete events. Transfers and collectives that cross a link at the same time share
/// the link's bandwidth max-min fairly. Error: the program hangs under the experiment's channel options.
tl::expected<EngineRun, Hang> event_run(const Experiment& experiment);

/// Returns true if two different streams of messages (between two ranks, or of a collective) cross the same
/// link of limited bandwidth. Contention may then change times.
bool links_are_shared(const Experiment& experiment);
/// Like links_are_shared(), but considers all messages that the stages may send to each other. It does not
/// read the program's lists.
bool stages_share_links(const Experiment& experiment);

/// Returns the engine that `automatic` selects for this experiment. Returns any other engine unchanged.
Engine resolve(const Experiment& experiment, Engine engine);

/// Runs the given engine. For `automatic`, it runs the engine that resolve() returns.
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
