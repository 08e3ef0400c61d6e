#pragma once
// Declares the subcommands of penstock. Each has its own .cpp file. command_line.hpp adds all of them and
// runs the one that the user named.

#include <functional>

#include "cli/executable.hpp"
#include "cli/outcome.hpp"
#include "cli/subcommand.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace penstock {

/// A subcommand. `app` says whether the user named the subcommand, and `run` executes it with the parsed
/// flags.
struct Command {
  Subcommand app;
  std::function<Outcome()> run;
};

Command schedules_command(CLI::App& root);
Command explain_command(CLI::App& root);
Command autopsy_command(CLI::App& root);
Command show_command(CLI::App& root);
Command figure_command(CLI::App& root);
Command check_command(CLI::App& root);
Command simulate_command(CLI::App& root);
Command convert_command(CLI::App& root);
Command plan_command(CLI::App& root);
/// Adds the `run` command. `invocation` must outlive the returned command.
Command run_command(CLI::App& root, const Invocation& invocation);
Command sweep_command(CLI::App& root);
/// Adds the `profile` command. `invocation` must outlive the returned command. The same applies to the
/// commands below that take an `invocation`.
Command profile_command(CLI::App& root, const Invocation& invocation);
Command calibrate_command(CLI::App& root, const Invocation& invocation);
Command validate_command(CLI::App& root, const Invocation& invocation);
Command selftest_command(CLI::App& root, const Invocation& invocation);
Command compare_command(CLI::App& root);
Command diff_command(CLI::App& root);
Command risk_command(CLI::App& root);
Command reproduce_command(CLI::App& root);
Command runs_command(CLI::App& root);
Command tune_command(CLI::App& root);
Command largest_command(CLI::App& root);
Command fit_command(CLI::App& root);
Command model_command(CLI::App& root);
Command init_command(CLI::App& root);
/// Adds the `completion` command, which reads all commands of `root` when it runs. `root` must outlive the
/// returned command.
Command completion_command(CLI::App& root);
/// Adds the `man` command, which also reads all commands of `root` when it runs. `root` must outlive the
/// returned command.
Command man_command(CLI::App& root);
Command import_command(CLI::App& root);

}  // namespace penstock
