// penstock reproduce: published figures beside what the simulator predicts, of all experiments or of those
// that are named. A claim that does not hold is a miss and makes the exit status 1, known misses as well.

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/commands/reproduce_output.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "sim/published/reproduce.hpp"
#include "text/nearest_name.hpp"

namespace penstock {
namespace {

struct ReproduceFlags {
  std::vector<std::string> names;
  bool list = false;
  OutputFlags output;
};

/// Each with its source and what is assumed.
std::string list_text() {
  std::string text;
  for (const Reproduction& reproduction : reproduction_table()) {
    text += fmt::format("{}\n    {}\n    {}\n", reproduction.name, reproduction.source, reproduction.setting);
  }
  return text;
}

Outcome list_experiments(const OutputFlags& output) {
  if (auto known = check_output_files(output.files, {".txt"}, {}); !known)
    return tl::unexpected(known.error());
  const std::vector<OutputForm> forms = {{".txt", [] { return list_text(); }}};
  if (auto written = write_answer(output, forms, list_text()); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

/// All where none is named. Error: a name that no experiment has.
tl::expected<std::vector<Reproduction>, UserError> chosen(const std::vector<std::string>& names) {
  const auto table = reproduction_table();
  if (names.empty()) return std::vector<Reproduction>(table.begin(), table.end());
  std::vector<Reproduction> experiments;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(table, name, &Reproduction::name);
    if (found == table.end()) {
      std::vector<std::string_view> known;
      for (const Reproduction& row : table) known.push_back(row.name);
      const std::string hint = did_you_mean(name, known);
      return bad_input(fmt::format("reproduce: unknown experiment \"{}\"{} There are: {}", name,
                                   hint.empty() ? "." : hint, fmt::join(known, ", ")));
    }
    experiments.push_back(*found);
  }
  return experiments;
}

Outcome run_reproduce(const ReproduceFlags& flags) {
  if (flags.list) return list_experiments(flags.output);
  if (auto known = check_output_files(flags.output.files, {".txt", ".json", ".md"}, {}); !known)
    return tl::unexpected(known.error());
  const auto experiments = chosen(flags.names);
  if (!experiments) return tl::unexpected(experiments.error());
  std::vector<Reproduced> all;
  all.reserve(experiments->size());
  for (const Reproduction& experiment : *experiments) all.push_back({experiment, experiment.run()});
  const std::vector<OutputForm> forms = {{".txt", [&] { return reproductions_to_text(all); }},
                                         {".json", [&] { return reproductions_to_json(all); }},
                                         {".md", [&] { return reproductions_to_markdown(all); }}};
  const std::string text =
      flags.output.json ? reproductions_to_json(all) : reproductions_to_text(all, table_width());
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  return std::ranges::all_of(all, &Reproduced::holds) ? ExitCode::ok : ExitCode::check_failed;
}

}  // namespace

Command reproduce_command(CLI::App& root) {
  Subcommand app(root, "reproduce", "Predict published figures and hold them against the papers.");
  const auto flags = std::make_shared<ReproduceFlags>();
  app.add_option("EXPERIMENT", flags->names, "what to reproduce (default: all)").type_name("NAME");
  app.add_flag("--list", flags->list, "list the experiments with their sources");
  add_output_flags(app, flags->output, ".txt .json .md");
  app.footer(
      "Each figure has a class: equal (a printed figure, held within a tolerance), bound, formula (a closed\n"
      "form or a drawing) or missed (no prediction is known to meet it). A figure keeps its class whether "
      "it\n"
      "holds or not, and every figure that does not hold counts as a miss.\n"
      "Exit status: 1 when a figure misses its tolerance or bound.\n"
      "Examples:\n"
      "  penstock reproduce zero-bubble-table-5\n"
      "  penstock reproduce --list");
  return {app, [flags] { return run_reproduce(*flags); }};
}

}  // namespace penstock
