#pragma once
// The engines: an Experiment in, a Timeline out. Both follow the rules that
// schedules/check/rendezvous_walk.hpp states; where no link is shared they agree to the nanosecond.

#include <cstdint>
#include <string_view>
#include <tl/expected.hpp>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"

namespace penstock {

enum class Engine : std::uint8_t {
  automatic,  // event where links_are_shared(), critical_path otherwise
  critical_path,
  event,
};
std::string_view to_text(Engine engine);

/// Longest paths: every transfer has its route to itself. One pass, no event queue. Error: the program
/// hangs under the experiment's channel options.
tl::expected<Timeline, Hang> critical_path(const Experiment& experiment);

/// Discrete events: transfers and the flows of collectives that cross the same link at the same time
/// share its bandwidth max-min fairly. Error: as above.
tl::expected<Timeline, Hang> event_simulation(const Experiment& experiment);

/// True when two different streams of messages (pairs of ranks, collectives) cross one link of limited
/// bandwidth, so that contention may change times.
bool links_are_shared(const Experiment& experiment);
/// The same of what the stages of a program may send each other, whatever its lists, which are not read.
bool stages_share_links(const Experiment& experiment);

/// Runs the engine that is asked for; `automatic` is resolved by links_are_shared().
tl::expected<Timeline, Hang> run_engine(const Experiment& experiment, Engine engine);
/// What `automatic` means for this experiment; other engines mean themselves.
Engine resolve(const Experiment& experiment, Engine engine);

}  // namespace penstock
