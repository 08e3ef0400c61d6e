#pragma once
// The engines: an Experiment in, the times of its program out, or a Timeline for whoever wants to see them.
// Both follow the rules that schedules/check/rendezvous_walk.hpp states; where no link is shared they agree
// to the nanosecond.

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
  automatic,  // event where links_are_shared(), critical_path otherwise
  critical_path,
  event,
};
template <>
inline constexpr auto kEnumWords<Engine> = std::to_array<EnumWord<Engine>>(
    {{Engine::automatic, "auto"}, {Engine::critical_path, "critical-path"}, {Engine::event, "event"}});

/// How an experiment ran: its program laid out flat, and when everything in it began and ended.
struct EngineRun {
  FlatProgram flat;
  ProgramTimes times;
  std::optional<PricedTape> tape{};  ///< what the times follow from; none where links are shared
};

/// Longest paths: every transfer has its route to itself. One pass over a tape, no event queue. Error: the
/// program hangs under the experiment's channel options.
tl::expected<EngineRun, Hang> critical_path_run(const Experiment& experiment);

/// Discrete events: transfers and the flows of collectives that cross the same link at the same time
/// share its bandwidth max-min fairly. Error: as above.
tl::expected<EngineRun, Hang> event_run(const Experiment& experiment);

/// True when two different streams of messages (pairs of ranks, collectives) cross one link of limited
/// bandwidth, so that contention may change times.
bool links_are_shared(const Experiment& experiment);
/// The same of what the stages of a program may send each other, whatever its lists, which are not read.
bool stages_share_links(const Experiment& experiment);

/// What `automatic` means for this experiment; other engines mean themselves.
Engine resolve(const Experiment& experiment, Engine engine);

/// Runs the engine that is asked for; `automatic` is resolved by links_are_shared().
tl::expected<EngineRun, Hang> run_engine(const Experiment& experiment, Engine engine);

/// The timelines of these runs.
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
