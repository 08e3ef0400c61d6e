// penstock completion and penstock man: print what a shell and man(1) need to know about the commands. The
// build runs both, and `cmake --install` installs their files.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/declared_commands.hpp"
#include "cli/executable.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "text/enum_words.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

Outcome run_completion(CLI::App& root, const std::string& word) {
  const Shell shell = enum_of_text<Shell>(word).value_or(Shell::bash);
  if (auto written = write_stdout(completion_script(declared_commands(root), shell)); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

struct ManFlags {
  std::string command;
  std::string folder;
};

/// Writes the man page of each command to the folder. Returns the first error.
Outcome write_pages(const std::vector<DeclaredCommand>& commands, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return bad_input(
        fmt::format("--folder {}: cannot be created: {}", shown_name(folder.string()), error.message()));
  }
  for (const DeclaredCommand& command : commands) {
    const std::filesystem::path file = folder / (page_name(command) + ".1");
    if (auto written = write_file(file, man_page(command, commands, built_parts().version)); !written)
      return tl::unexpected(written.error());
  }
  return ExitCode::ok;
}

Outcome run_man(CLI::App& root, const ManFlags& flags) {
  const std::vector<DeclaredCommand> commands = declared_commands(root);
  if (!flags.folder.empty()) {
    if (!flags.command.empty())
      return bad_input("man: --folder gets the pages of all commands: leave the command out");
    return write_pages(commands, flags.folder);
  }
  const auto found = std::ranges::find(commands, flags.command, &DeclaredCommand::name);
  if (found == commands.end()) {
    std::vector<std::string_view> names;
    names.reserve(commands.size());
    for (const DeclaredCommand& command : commands) names.emplace_back(command.name);
    return bad_input(fmt::format("man: expected the name of a command, got \"{}\"{}", flags.command,
                                 did_you_mean(flags.command, names)));
  }
  if (auto written = write_stdout(man_page(*found, commands, built_parts().version)); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

}  // namespace

Command completion_command(CLI::App& root) {
  Subcommand app(root, "completion", "Print the script with which a shell completes commands and flags.");
  const auto shell = std::make_shared<std::string>();
  add_choice(
      app, "SHELL", *shell,
      {.words = enum_choices<Shell>(), .help = "bash, zsh or fish", .group = "Options", .type_name = "NAME"})
      .required();
  app.footer(
      "An installed penstock has these files in place.\n\n"
      "Examples:\n"
      "  source <(penstock completion bash)\n"
      "  penstock completion zsh > ~/.zfunc/_penstock\n"
      "  penstock completion fish > ~/.config/fish/completions/penstock.fish");
  return {app, [shell, &root] { return run_completion(root, *shell); }};
}

Command man_command(CLI::App& root) {
  Subcommand app(root, "man", "Print a man page of penstock or of one of its commands.");
  const auto flags = std::make_shared<ManFlags>();
  app.add_option("COMMAND", flags->command, "a command; without it, the page of penstock").type_name("NAME");
  app.add_option("--folder", flags->folder,
                 "print nothing, and write the pages of all commands to this folder")
      .group("Output")
      .type_name("FILE");
  app.footer(
      "Examples:\n"
      "  penstock man sweep | man -l -\n"
      "  penstock man --folder ~/.local/share/man/man1");
  return {app, [flags, &root] { return run_man(root, *flags); }};
}

}  // namespace penstock
