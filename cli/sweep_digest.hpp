#pragma once
// Which sweep it is, so that `penstock sweep` takes no rows of another one from a file. Used by
// commands/sweep_command.cpp.

#include <string>
#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/runs/sweep.hpp"

namespace penstock {

/// A hash, in hex digits, over all that decides the points of a sweep of `scenario`, which `input` has made:
/// the scenario's text with its overrides in place and what the files hold that it names, the flags beside
/// it, the grid, and the commit of penstock. Comments, and under which name the scenario or its files lie,
/// are not in it. Error: a file that cannot be read a second time, as a pipe.
tl::expected<std::string, UserError> sweep_digest(const InputFlags& input, const Scenario& scenario,
                                                  const SweepGrid& grid);

}  // namespace penstock
