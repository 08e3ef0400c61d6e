#pragma once
// Computes the times of a program in a simple way, from the text of docs/design/semantics.md alone. Tests
// compare the engines with it.

#include <optional>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock {

/// Returns the spans of all actions, rank by rank in program order, without releases. Returns nothing if the
/// program hangs. If `posts_in_order` is true, a single SEND or RECV starts only when program order has
/// reached it, as in checks for hangs (rule 8 of the page). Requires a lowered program on equal links.
std::optional<std::vector<Span>> times_by_the_page(const Experiment& experiment, bool posts_in_order = false);

}  // namespace penstock
