// penstock model: what a configuration of Hugging Face describes: how many parameters it has, how many of
// them a token meets, and in which layers they lie.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "scenarios/architecture/architecture.hpp"
#include "scenarios/read/load_architecture.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string_view> kSuffixes = {".json", ".txt"};
constexpr std::int64_t kWeightBytes = 2;  // bf16

struct ModelQuestion {
  ArchitectureRequest request;
  OutputFlags output;
};

/// Layers that are alike, with the parameters of one of them.
struct LayerRow {
  std::string name;
  std::int64_t count = 1;
  std::int64_t parameters = 0;
};

std::string name_of(const LayerKind& kind) {
  const std::string_view part = kind.has_experts ? "expert layer" : "dense layer";
  return kind.window == 0 ? std::string(part) : fmt::format("{}, window {}", part, kind.window);
}

std::vector<LayerRow> rows_of(const Architecture& model) {
  std::vector<LayerRow> rows = {{.name = "embedding", .parameters = embedding_parameters(model)}};
  for (const LayerGroup& group : layer_groups(model)) {
    rows.push_back({.name = name_of(group.kind),
                    .count = group.count,
                    .parameters = layer_parameters(model, group.kind)});
  }
  rows.push_back({.name = "head", .parameters = head_parameters(model)});
  if (model.multi_token > 0) {
    rows.push_back({.name = "multi-token layer",
                    .count = model.multi_token,
                    .parameters = multi_token_parameters(model)});
  }
  return rows;
}

std::optional<double> flops_of(const ArchitecturePart& part) {
  if (!part.sequence) return std::nullopt;
  return flops_per_sample(part.architecture, *part.sequence);
}

// --- text -----------------------------------------------------------------------------------------------

/// "8 030 261 248": long numbers in groups of three.
std::string grouped(std::int64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t place = digits.size(); place > 3; place -= 3) digits.insert(place - 3, " ");
  return digits;
}

/// "1 layer", "32 layers, 8 of 2 experts a token".
std::string description_of(const Architecture& model) {
  std::string text = fmt::format(
      "{} of width {}", format_count(static_cast<std::int64_t>(model.layers.size()), "layer"), model.hidden);
  if (model.experts) {
    text += fmt::format(", {} of {} a token", model.experts->per_token,
                        format_count(model.experts->count, "expert"));
  }
  return model.family.empty() ? text : fmt::format("{}: {}", model.family, text);
}

std::string summary_of(const ArchitecturePart& part) {
  const Architecture& model = part.architecture;
  const std::int64_t count = parameters(model);
  Table table{.columns = {description_of(model), ""}, .rows = {}};
  const auto add = [&](std::string name, std::string figure) {
    table.rows.push_back({{std::move(name), {}}, {std::move(figure), 0.0}});
  };
  add("parameters", grouped(count));
  add("active parameters", grouped(active_parameters(model)));
  add("weights in bf16", format_bytes(kWeightBytes * count));
  if (const auto flops = flops_of(part))
    add(fmt::format("operations of a sample of {} tokens", *part.sequence), fmt::format("{:.6g}", *flops));
  return table_to_text(table);
}

std::string layers_text(const Architecture& model) {
  Table table{.columns = {"layer", "count", "parameters"}, .rows = {}};
  for (const LayerRow& row : rows_of(model)) {
    table.rows.push_back({{row.name, {}},
                          {std::to_string(row.count), static_cast<double>(row.count)},
                          {grouped(row.parameters), static_cast<double>(row.parameters)}});
  }
  return table_to_text(table);
}

std::string to_text(const ArchitecturePart& part) {
  std::string text = fmt::format("{}\n{}", summary_of(part), layers_text(part.architecture));
  if (!part.notes.empty()) text += '\n';
  for (const std::string& note : part.notes) text += fmt::format("note: {}\n", note);
  return text;
}

// --- JSON -----------------------------------------------------------------------------------------------

Json layers_json(const Architecture& model) {
  Json layers = Json::array();
  for (const LayerRow& row : rows_of(model))
    layers.push_back({{"name", row.name}, {"count", row.count}, {"parameters", row.parameters}});
  return layers;
}

std::string to_json(const ArchitecturePart& part) {
  const Architecture& model = part.architecture;
  Json document = {{"schema_version", 1},
                   {"kind", "model"},
                   {"family", model.family},
                   {"parameters", parameters(model)},
                   {"active_parameters", active_parameters(model)},
                   {"weight_bytes", kWeightBytes * parameters(model)}};
  if (const auto flops = flops_of(part)) document["flops_per_sample"] = *flops;
  document["layers"] = layers_json(model);
  document["ignored"] = part.ignored;
  document["notes"] = part.notes;
  return document.dump(2) + '\n';
}

Outcome run_model(const ModelQuestion& flags) {
  if (auto known = check_output_files(flags.output.files, kSuffixes); !known)
    return tl::unexpected(known.error());
  const auto part = load_architecture(flags.request);
  if (!part) return bad_input(part.error());
  const std::vector<OutputForm> forms = {{".json", [&] { return to_json(*part); }},
                                         {".txt", [&] { return to_text(*part); }}};
  const std::string text = flags.output.json ? to_json(*part) : to_text(*part);
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

}  // namespace

Command model_command(CLI::App& root) {
  Subcommand app(root, "model", "Count a model's parameters, layer by layer.");
  const auto flags = std::make_shared<ModelQuestion>();
  const std::string group = "Model";
  app.add_option("CONFIG", flags->request.config, "a config.json of Hugging Face")
      .required()
      .type_name("FILE");
  app.add_option("--ignore", flags->request.ignore,
                 "a key of it to leave out, such as vision_config, to price the rest; may be repeated")
      .group(group)
      .one_value_each()
      .type_name("KEY");
  app.add_option("--layers", flags->request.layers, "its first N layers only").group(group).type_name("N");
  app.add_option("--multi-token", flags->request.multi_token,
                 "with N layers of multi-token prediction, which no count of parameters holds")
      .group(group)
      .type_name("N");
  app.add_option("--sequence", flags->request.sequence,
                 "tokens of a sample, for its floating-point operations")
      .group(group)
      .type_name("N");
  add_output_flags(app, flags->output, ".json .txt");
  app.footer(
      "Examples:\n"
      "  penstock model scenarios/library/models/llama-3.1-8b.json\n"
      "  penstock model scenarios/library/models/mixtral-8x7b.json --sequence 8192 --json | jq "
      ".active_parameters");
  return {app, [flags] { return run_model(*flags); }};
}

}  // namespace penstock
