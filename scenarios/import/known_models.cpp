// Finds the sizes of models that configurations only name, and the settings of Megatron Bridge's recipes.
// Both are tables in scenarios/library/imports, with one row for each model or recipe and with the sources
// of the sizes. A table's header names the keys that a row sets. The name of a recipe may also state
// devices and precision. For example, llama3_8b_pretrain_2gpu_h100_bf16_config is
// llama3_8b_pretrain_config on two devices.

#include "scenarios/import/importers.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/host/library_texts.hpp"
#include "scenarios/import/plan.hpp"
#include "scenarios/import/settings.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "text/csv_table.hpp"
#include "text/numbers.hpp"

namespace penstock {

namespace {

/// Returns the table `name` of Penstock's library of known models and recipes. An error in it is a bug of
/// Penstock, because the program contains the table.
CsvTable library_table(std::string_view name, std::span<const std::string_view> columns) {
  const auto text = std::ranges::find(library_texts(), name, &LibraryText::name);
  auto table = CsvTable::parse(text->text, columns);
  if (!table) throw std::logic_error(fmt::format("{}.csv: {}", name, table.error()));
  return *std::move(table);
}

const CsvTable& known_models() {
  static constexpr auto kColumns = std::to_array<std::string_view>({"name"});
  static const CsvTable table = library_table("known_models", kColumns);
  return table;
}

const CsvTable& bridge_recipes() {
  static constexpr auto kColumns = std::to_array<std::string_view>({"name", "devices", "model"});
  static const CsvTable table = library_table("bridge_recipes", kColumns);
  return table;
}

/// Returns the letters and digits of a name in lower case. All other characters are dropped.
std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) letters.push_back(static_cast<char>(std::tolower(byte)));
  }
  return letters;
}

/// Returns true if `name` is the model `own`. The comparison ignores the folder in `name`, a file suffix, and
/// words of the release such as "instruct".
bool names_model(std::string_view name, std::string_view own) {
  name = name.substr(name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1);
  for (const std::string_view suffix : {".yaml", ".yml", ".json"}) {
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  }
  std::string letters = letters_of(name);
  if (letters.starts_with("meta")) letters.erase(0, 4);
  const std::string own_letters = letters_of(own);
  if (!letters.starts_with(own_letters)) return false;
  constexpr auto kReleases =
      std::to_array<std::string_view>({"", "hf", "base", "instruct", "v01", "v02", "v03", "instructv01"});
  return std::ranges::find(kReleases, std::string_view(letters).substr(own_letters.size())) !=
         kReleases.end();
}

constexpr std::string_view kPretrain = "_pretrain_";

/// The parts of a recipe's name: the model ("llama3_8b"), a variant such as "16k" or "32nodes", and in newer
/// names the number of devices.
struct RecipeName {
  std::string base;
  std::optional<std::int64_t> devices{};
  std::string unlike{};  ///< a word of the name that does not belong to the known recipe, such as "fp8cs"
};

RecipeName recipe_name(std::string_view name) {
  RecipeName parts;
  const std::size_t mark = name.find(kPretrain);
  if (mark == std::string_view::npos || !name.ends_with("config")) return parts;
  parts.base = name.substr(0, mark);
  std::string_view rest = name.substr(mark + kPretrain.size());
  for (rest.remove_suffix(std::string_view("config").size()); !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find('_'));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    if (word.ends_with("gpu")) {
      parts.devices = number_of_text<std::int64_t>(word.substr(0, word.size() - 3));
    } else if (word.ends_with('k') || word.ends_with("nodes")) {
      parts.base += fmt::format("_{}", word);
    } else if (!word.empty() && word != "bf16" && word != "h100") {
      parts.unlike = word;
    }
  }
  return parts;
}

/// Returns the table row of a recipe, or nothing if the recipe is unknown. If its variants need different
/// numbers of devices, the number in the name selects the variant. A name without such a number selects the
/// first variant.
std::optional<std::size_t> recipe_row(const RecipeName& name) {
  if (!name.unlike.empty()) return std::nullopt;
  for (std::size_t row = 0; row < bridge_recipes().row_count(); ++row) {
    if (bridge_recipes().cell(row, "name") != name.base) continue;
    const std::string& devices = bridge_recipes().cell(row, "devices");
    if (devices.empty() || !name.devices || devices == std::to_string(*name.devices)) return row;
  }
  return std::nullopt;
}

/// Returns the texts in the column "name" of a table, each one once. Requires that rows with equal names are
/// adjacent.
std::vector<std::string_view> names_of(const CsvTable& table) {
  std::vector<std::string_view> names;
  for (std::size_t row = 0; row < table.row_count(); ++row) {
    const std::string& name = table.cell(row, "name");
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  return names;
}

}  // namespace

bool set_known_model(Plan& plan, std::string_view name) {
  const CsvTable& models = known_models();
  for (std::size_t row = 0; row < models.row_count(); ++row) {
    if (!names_model(name, models.cell(row, "name"))) continue;
    for (const std::string& column : models.header()) {
      const std::string& cell = models.cell(row, column);
      if (column != "name" && !cell.empty()) plan.set("model." + column, cell);
    }
    return true;
  }
  const std::vector<std::string_view> configs = library_configs();
  const auto config =
      std::ranges::find_if(configs, [&](std::string_view own) { return names_model(name, own); });
  if (config == configs.end()) return false;
  plan.library_model = *config;
  return true;
}

std::string known_model_names() {
  std::vector<std::string_view> names = names_of(known_models());
  for (const std::string_view config : library_configs()) {
    if (std::ranges::find(names, config) == names.end()) names.push_back(config);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string_view> bridge_recipe_names() { return names_of(bridge_recipes()); }

bool add_bridge_recipe(Settings& settings, Plan& plan, std::string_view name) {
  const RecipeName parts = recipe_name(name);
  const auto row = recipe_row(parts);
  if (!row) return false;
  const CsvTable& recipes = bridge_recipes();
  const std::string& model = recipes.cell(*row, "model");
  set_known_model(plan, model);
  plan.devices = parts.devices;
  if (!plan.devices) plan.devices = number_of_text<std::int64_t>(recipes.cell(*row, "devices"));
  // All recipes have these settings, unless the recipe's row of the table states another value.
  settings.add("mixed_precision", "bf16_mixed");
  for (const std::string_view common :
       {"ddp.use_distributed_optimizer", "ddp.overlap_grad_reduce", "ddp.overlap_param_gather"}) {
    if (!recipes.has(common) || recipes.cell(*row, common).empty()) settings.add(std::string(common), "true");
  }
  for (const std::string& column : recipes.header()) {
    const std::string& cell = recipes.cell(*row, column);
    if (column.find('.') != std::string::npos && !cell.empty()) settings.add(column, cell);
  }
  return true;
}

}  // namespace penstock
