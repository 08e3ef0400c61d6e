#pragma once
// Parses the arguments and runs the subcommand. This is the whole program except main().

#include "cli/extensions.hpp"
#include "cli/outcome.hpp"

namespace penstock {

/// Runs the command line and returns the exit code. Answers go to standard output and messages to stderr. It
/// throws only if penstock itself has a fault.
ExitCode run_command_line(int argc, const char* const* argv, Extensions extensions = {});

}  // namespace penstock
