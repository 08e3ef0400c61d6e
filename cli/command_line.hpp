#pragma once
// The whole program except main(): parses the arguments and runs the subcommand.

#include "cli/extensions.hpp"
#include "cli/outcome.hpp"

namespace penstock {

/// Runs the command line and returns the exit code. Answers go to standard output, messages to stderr. Throws
/// only for a fault of penstock itself.
ExitCode run_command_line(int argc, const char* const* argv, Extensions extensions = {});

}  // namespace penstock
