// penstock import: reads the configuration of another program, and prints the scenario that it describes.
// Below the scenario, it lists every key of the configuration. A key is either taken, and the scenario's
// key is shown, or ignored, and the reason is shown. A key without which the prediction would be wrong
// ends the command with exit code 2.

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "scenarios/import/importers.hpp"
#include "scenarios/import/settings.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {
namespace {

struct ImportFlags {
  std::vector<std::string> inputs;
  std::string from;
  ModelFlags model;
  std::vector<std::string> settings;
  OutputFlags output;
};

/// Returns flags that the user pasted as the text of a script. Words that contain special characters of the
/// shell are put in quotes.
std::string pasted_text(const std::vector<std::string>& words) {
  std::string text = "#!/bin/sh\n";
  for (const std::string& word : words) {
    const bool is_plain = std::ranges::all_of(word, [](unsigned char c) {
      return std::isalnum(c) != 0 ||
             std::string_view("-_.=/,:+@%").find(static_cast<char>(c)) != std::string_view::npos;
    });
    text += is_plain && !word.empty() ? word : fmt::format("'{}'", word);
    text += ' ';
  }
  return text;
}

tl::expected<std::vector<ImportInput>, UserError> inputs_of(const std::vector<std::string>& names) {
  const auto is_flag = [](const std::string& word) { return word.starts_with("--"); };
  if (std::ranges::any_of(names, is_flag))
    return std::vector<ImportInput>{{.name = "--", .text = pasted_text(names)}};
  std::vector<ImportInput> inputs;
  for (const std::string& name : names) {
    auto input = import_input(name);
    if (!input) return tl::unexpected(input.error());
    inputs.push_back(*std::move(input));
  }
  return inputs;
}

/// Returns the keys with one fate (taken, ignored or refused), one for each line, as comments of YAML.
std::string listed(const Imported& imported, Fate fate, std::string_view heading, std::string_view sign) {
  std::string text;
  for (const ImportedKey& key : imported.keys) {
    if (key.fate != fate) continue;
    if (text.empty()) text = fmt::format("{}\n", heading);
    text += fmt::format("  {} {}{}{}\n", key.key, key.value, sign, key.text);
  }
  return text.empty() ? text : comment_to_yaml(text);
}

std::string scenario_text(const Imported& imported, std::string_view name) {
  return comment_to_yaml(fmt::format("{}: {}", name, import_summary(imported))) + imported.yaml +
         listed(imported, Fate::taken, "taken:", " -> ") + listed(imported, Fate::ignored, "ignored:", ": ");
}

/// Returns {importer, scenario, taken: [KEY], ignored: [{key, why}], notes}. A refused key is an error, so
/// there is no list of them.
std::string import_json(const Imported& imported) {
  nlohmann::ordered_json json;
  json["importer"] = imported.importer;
  json["scenario"] = imported.yaml;
  json["taken"] = nlohmann::ordered_json::array();
  json["ignored"] = nlohmann::ordered_json::array();
  for (const ImportedKey& key : imported.keys) {
    if (key.fate == Fate::taken) json["taken"].push_back(key.key);
    if (key.fate == Fate::ignored) json["ignored"].push_back({{"key", key.key}, {"why", key.text}});
  }
  json["notes"] = imported.notes;
  return json.dump(2) + "\n";
}

Outcome run_import(const ImportFlags& flags) {
  InputFlags stated;
  stated.settings = flags.settings;
  stated.model = flags.model;
  std::vector<FileArgument> others = inputs_of(stated);
  for (const std::string& name : flags.inputs) others.push_back({"the input", name});
  if (auto known = check_output_files(flags.output.files, {".yaml", ".yml", ".json"}, others); !known)
    return tl::unexpected(known.error());
  auto inputs = inputs_of(flags.inputs);
  if (!inputs) return tl::unexpected(inputs.error());
  const std::string name = inputs->front().name;
  auto request = import_request(*std::move(inputs), flags.model, flags.settings);
  if (!request) return tl::unexpected(request.error());
  request->from = flags.from;
  const auto imported = import_configuration(*request);
  if (!imported) return bad_input(imported.error());
  write_notes(imported->notes, flags.output);
  const std::string text = scenario_text(*imported, name);
  const std::vector<OutputForm> forms = {{".yaml", [&] { return std::string(text); }},
                                         {".yml", [&] { return std::string(text); }},
                                         {".json", [&] { return import_json(*imported); }}};
  if (auto written = write_answer(flags.output, forms, flags.output.json ? import_json(*imported) : text);
      !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

}  // namespace

Command import_command(CLI::App& root) {
  Subcommand app(root, "import", "Make a scenario of another program's configuration.");
  const auto flags = std::make_shared<ImportFlags>();
  app.add_option(
         "INPUT", flags->inputs,
         "a script or YAML with Megatron-LM's arguments, torchtitan's TOML, DeepSpeed's JSON, nanotron's or "
         "Primus' YAML, files of SimuMax or calculon, the name of a Megatron Bridge recipe, the file of a "
         "machine (NCCL's topology XML, nvidia-smi topo -m, a network of ASTRA-sim), - for standard input, "
         "or "
         "-- and pasted flags")
      .required()
      .type_name("FILE");
  add_choice(app, "--from", flags->from,
             {.words = importer_names(),
              .help = fmt::format("the program of the configuration: {} (default: found by its shape)",
                                  fmt::join(importer_names(), ", ")),
              .group = "Input",
              .type_name = "NAME"});
  add_import_flags(app, flags->model);
  add_settings_flag(app, flags->settings, "What the configuration does not state");
  add_output_flags(app, flags->output, ".yaml .yml .json");
  app.footer(
      "Examples:\n"
      "  penstock import llama3_70b_pretrain_config --device h100-sxm --devices 64\n"
      "  penstock import --device h100-sxm --devices 32 --model scenarios/library/models/llama-3.1-8b.json "
      "-- "
      "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --micro-batch-size 1 "
      "--global-batch-size "
      "128 --seq-length 8192 --bf16");
  return {app, [flags] { return run_import(*flags); }};
}

}  // namespace penstock
