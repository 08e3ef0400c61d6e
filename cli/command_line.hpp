#pragma once
// Parses the arguments and runs the subcommand. This is the whole program except main().

#include <span>

#include <tl/expected.hpp>

#include "cli/executable.hpp"
#include "cli/outcome.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace penstock {

/// Parses arguments, the first of which is the program's name. First translates flags of other programs
/// into Penstock's flags. The error is the message for the user, with a suggestion if a name is misspelt.
/// Throws CLI::Success if the arguments ask for help or the version.
tl::expected<void, UserError> parse_arguments(CLI::App& root, std::span<const char* const> arguments);

/// Runs the command that the arguments name and returns the exit code. Answers go to standard output and
/// messages to stderr. Throws only if penstock itself has a fault.
ExitCode run_command_line(int argc, const char* const* argv, Extensions extensions = {});

}  // namespace penstock
