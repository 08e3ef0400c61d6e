// If many messages share links, a nanosecond can decide which messages meet on a link and delay each other,
// and so which messages they meet next. The makespan is then a chaotic function of the durations. If few
// messages share links, a small change stays small: the makespan changes by no larger a part than the
// durations.

#include "sim/runs/sharing_band.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "report/print/units.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/mixed_bits.hpp"
#include "sim/engines/event_walk.hpp"
#include "sim/network/message_costs.hpp"

namespace penstock {
namespace {

/// Returns the durations, each multiplied by 1 + part * u. The number u is uniform in [-1, 1) and drawn for
/// the position.
WalkDurations disturbed(const WalkDurations& undisturbed, double part) {
  constexpr std::uint64_t kSeed = 1;
  WalkDurations durations = undisturbed;
  for (std::size_t position = 0; position < durations.compute.size(); ++position) {
    const auto duration = static_cast<double>(durations.compute[position]);
    durations.compute[position] += std::llround(duration * part * (2 * even_draw(kSeed, position) - 1));
  }
  return durations;
}

}  // namespace

double sharing_band(const Experiment& experiment, Ns makespan_ns) {
  if (makespan_ns == 0) return 0;
  const FlatProgram flat =
      flatten(experiment.program, experiment.costs,
              {.channels = experiment.channels, .iterations = experiment.program.iterations});
  const WalkDurations durations = walk_durations(experiment, flat);
  Ns farthest = 0;
  // Two sizes, because the makespan jumps: with one of them, the same messages may meet as before by chance.
  for (const double part : {1e-6, 1e-5}) {
    const Ns other = last_end(event_walk(experiment, flat, disturbed(durations, part)));
    farthest = std::max(farthest, std::abs(other - makespan_ns));
  }
  return static_cast<double>(farthest) / static_cast<double>(makespan_ns);
}

std::optional<std::string> sharing_band_note(const Experiment& experiment, Ns makespan_ns) {
  constexpr double kWorthSaying = 1e-4;
  const double band = sharing_band(experiment, makespan_ns);
  if (band <= kWorthSaying) return std::nullopt;
  return fmt::format(
      "shared links: ±{} on the makespan: when durations change by 0.001 %, other messages meet on the links",
      format_percent(band));
}

}  // namespace penstock
