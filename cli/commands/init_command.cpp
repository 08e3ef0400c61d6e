// penstock init: writes a commented file with which a user can begin: a scenario, a schedule or a CI
// workflow.

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
#include "cli/executable.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "scenarios/read/document.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

struct InitFlags {
  std::string kind = "llm";
  std::string file;  ///< the name of the new file; empty for the starter's own
};

std::vector<std::string_view> kinds() {
  std::vector<std::string_view> words;
  for (const Starter& starter : starters()) words.push_back(starter.word);
  return words;
}

/// Returns an error if a file of this name exists. A user may have worked on it.
tl::expected<void, UserError> check_is_new(const std::filesystem::path& file) {
  std::error_code error;
  // A link to a missing file counts as a file. Otherwise the file to which the link points would be written.
  const auto status = std::filesystem::symlink_status(file, error);
  if (!std::filesystem::exists(status)) return {};
  return bad_input(
      fmt::format("{}: exists and is not overwritten: name another file, as in `penstock init llm "
                  "mine.yaml`, or remove it",
                  shown_name(file.string())));
}

/// Creates the folder of a starter file, such as .github/workflows. If the user names a file, its folder
/// must exist already. A folder that does not exist is probably misspelt.
tl::expected<void, UserError> make_folder(const std::filesystem::path& file) {
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (!error) return {};
  return bad_input(
      fmt::format("{}: cannot be created: {}", shown_name(file.parent_path().string()), error.message()));
}

Outcome run_init(const InitFlags& flags) {
  const Starter& starter = *std::ranges::find(starters(), flags.kind, &Starter::word);
  if (flags.file == kStandardInput) {  // "-", which is also the name of standard output
    if (auto printed = write_stdout(starter.text); !printed) return tl::unexpected(printed.error());
    return ExitCode::ok;
  }
  const std::filesystem::path file = flags.file.empty() ? std::string(starter.file) : flags.file;
  if (auto is_new = check_is_new(file); !is_new) return tl::unexpected(is_new.error());
  if (flags.file.empty() && file.has_parent_path()) {
    if (auto made = make_folder(file); !made) return tl::unexpected(made.error());
  }
  if (auto place = check_output_place({"FILE", file.string()}, {}); !place)
    return tl::unexpected(place.error());
  if (auto written = write_file(file, starter.text); !written) return tl::unexpected(written.error());
  const std::string text =
      fmt::format("wrote {}; its first lines say what to do next\n", shown_name(file.string()));
  if (auto printed = write_stdout(text); !printed) return tl::unexpected(printed.error());
  return ExitCode::ok;
}

}  // namespace

Command init_command(CLI::App& root) {
  Subcommand app(root, "init",
                 "Write a commented file to begin with: a scenario, a schedule or a CI workflow.");
  const auto flags = std::make_shared<InitFlags>();
  add_choice(
      app, "KIND", flags->kind,
      {.words = kinds(),
       .help = "llm, a language model on named GPUs (default; llm.yaml); profile, layers with measured "
               "times (profile.yaml); schedule, a schedule action by action (schedule.psched); ci, a "
               "workflow of GitHub Actions (.github/workflows/penstock.yml)",
       .group = "Options",
       .type_name = "WORD"});
  app.add_option("FILE", flags->file,
                 "the name of the new file, or - for standard output; a file that exists is not overwritten")
      .type_name("FILE");
  app.footer(
      "Examples:\n"
      "  penstock init && penstock simulate llm.yaml\n"
      "  penstock init schedule mine.psched\n"
      "  penstock init ci -");
  return {app, [flags] { return run_init(*flags); }};
}

}  // namespace penstock
