#pragma once
// The whole program but for main(): parses the arguments and runs the subcommand.

#include "cli/extensions.hpp"
#include "cli/outcome.hpp"

namespace penstock {

/// Answers go to standard output, messages to stderr. Throws only what is a fault of penstock itself.
ExitCode run_command_line(int argc, const char* const* argv, Extensions extensions = {});

}  // namespace penstock
