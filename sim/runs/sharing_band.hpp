#pragma once
// How sure a makespan can be where messages share links.

#include <optional>
#include <string>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// How far the makespan goes from `makespan_ns`, that of event_simulation(), when all compute actions take a
/// little more or less, as a part of it: the larger one of two runs whose durations differ by up to a
/// millionth and a hundred-thousandth (1 ns and 10 ns of a millisecond). The same for equal inputs. Requires
/// a program that does not hang.
double sharing_band(const Experiment& experiment, Ns makespan_ns);

/// The note that says so; nothing where the band is within 0.01 %.
std::optional<std::string> sharing_band_note(const Experiment& experiment, Ns makespan_ns);

}  // namespace penstock
