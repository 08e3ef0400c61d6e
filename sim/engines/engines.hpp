#pragma once
// The engines compute the times of an experiment's program, or its Timeline. Both follow the rules of
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

/// The run of an experiment: its program in flat form, and the start and end of everything in it.
struct EngineRun {
  FlatProgram flat;
  ProgramTimes times;
  std::optional<PricedTape> tape{};  ///< tape from which the times follow; absent if links are shared
};

/// Finds the times as longest paths, as if every transfer had its route to itself. It makes one pass over a
/// tape and needs no event queue. Error: the program hangs under the experiment's channel options.
tl::expected<EngineRun, Hang> critical_path_run(const Experiment& experiment);

/// Finds the times with discrete events. Transfers and collectives that cross a link at the same time share
/// its bandwidth max-min fairly. Error: the program hangs under the experiment's channel options.
tl::expected<EngineRun, Hang> event_run(const Experiment& experiment);

/// Returns whether two different streams of messages (pairs of ranks, collectives) cross one link of limited
/// bandwidth. Contention may then change times.
bool links_are_shared(const Experiment& experiment);
/// Like links_are_shared(), for all messages that the stages may send each other. It does not read the
/// program's lists.
bool stages_share_links(const Experiment& experiment);

/// Returns the engine that `automatic` selects for this experiment. Returns any other engine unchanged.
Engine resolve(const Experiment& experiment, Engine engine);

/// Runs the given engine. For `automatic`, it runs the engine that resolve() returns.
tl::expected<EngineRun, Hang> run_engine(const Experiment& experiment, Engine engine);

/// Like critical_path_run() and event_run(), but these functions return the timeline.
tl::expected<Timeline, Hang> critical_path(const Experiment& experiment);
tl::expected<Timeline, Hang> event_simulation(const Experiment& experiment);

// The event engine with durations that the caller chooses. event_simulation(), and the trials of risk.hpp use
// it.

/// Returns the times of event_simulation() if compute actions take `durations.compute`. A transfer arrives
/// `durations.latency` after the links have carried its bytes. The engine computes holds from the shared
/// links and ignores `durations.hold`. Requires a program that does not hang, laid out for the experiment's
/// channels.
ProgramTimes event_walk(const Experiment& experiment, const FlatProgram& flat,
                        const WalkDurations& durations);

}  // namespace penstock
