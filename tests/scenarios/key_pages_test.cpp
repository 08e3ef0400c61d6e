// Tests the pages that list all keys of a scenario: docs/reference/scenario.md for readers, and
// docs/reference/scenario.schema.json for editors. They are generated from the entries in
// scenarios/read/load_*.cpp. With PENSTOCK_UPDATE_GOLDENS=1, this test writes the pages.

#include "scenarios/read/reader.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/test_files.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kIntroduction =
    R"(# The scenario file

A scenario states an experiment: model, cluster, schedule and training. It is YAML or JSON. This page lists all keys;
[scenario.schema.json](scenario.schema.json) tells them to an editor. Ready-made scenarios are in
[scenarios/library](../../scenarios/library).

* Times have a unit: ns, us, ms, s, min, h. Bytes: B, kB, MB, GB, TB, PB, or KiB, MiB, GiB, TiB, PiB.
* Bandwidths: GB/s, GiB/s, or Gb/s for bits. Rates: FLOP/s with a prefix, such as TFLOP/s. Only 0 needs no unit.
* `--set KEY=VALUE` changes one value before the file is read: `--set model.stages.forward.2=3ms`.
* A wrong key or value is an error that names the file, the line, the key, what was expected and what was found.
)";

/// The text in place of a default if a key is required.
constexpr std::string_view kRequired = "required";

// --- the page -------------------------------------------------------------------------------------------

std::string heading(const KeyGroup& group) {
  if (group.path.empty()) return "The file";
  return fmt::format("`{}`{}{}", group.path, group.form.empty() ? "" : ": ", group.form);
}

/// Returns the anchor that Markdown assigns to a heading.
std::string anchor(const KeyGroup& group) {
  std::string text;
  for (const char c : heading(group)) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0 || c == '-' || c == '_') text += static_cast<char>(std::tolower(letter));
    if (c == ' ') text += '-';
  }
  return text;
}

std::string path_of(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

std::vector<KeyGroup> groups_at(std::string_view path) {
  std::vector<KeyGroup> found;
  for (const KeyGroup& group : scenario_keys()) {
    if (group.path == path) found.push_back(group);
  }
  return found;
}

std::string range_text(Range range) {
  const bool is_open = range.most >= std::numeric_limits<std::int32_t>::max();
  return is_open ? fmt::format("{} or more", range.least) : fmt::format("{} to {}", range.least, range.most);
}

std::string one_value_text(std::string_view path, const Key& key) {
  switch (key.kind) {
    case KeyKind::duration:
      return "time";
    case KeyKind::bytes:
      return "bytes";
    case KeyKind::limit:
      return "bytes, or unlimited";
    case KeyKind::bandwidth:
      return "bandwidth, or unlimited";
    case KeyKind::speed:
      return "bandwidth";
    case KeyKind::rate:
      return "FLOP/s";
    case KeyKind::factor:
      return fmt::format("above 0, at most {}", key.range.most);
    case KeyKind::number:
      return "a number, 0 or more";
    case KeyKind::integer:
      return range_text(key.range);
    case KeyKind::count:
      return range_text(key.range) + ", or unlimited";
    case KeyKind::flag:
      return "true or false";
    case KeyKind::word:
      return fmt::format("{}", fmt::join(key.words, ", "));
    case KeyKind::name:
      return "a name";
    case KeyKind::names:
      return "a list of names";
    case KeyKind::file:
      return "a file";
    case KeyKind::mapping:
      return fmt::format("[keys](#{})", anchor(groups_at(path_of(path, key.name)).front()));
    case KeyKind::mappings:
      return fmt::format("[{}](#{})", key.form.empty() ? "a list" : key.form,
                         anchor(groups_at(path_of(path, key.name) + "[]").front()));
    case KeyKind::other:
      return std::string(key.form);
  }
  return "";
}

std::string value_text(std::string_view path, const Key& key) {
  const std::string one = one_value_text(path, key);
  switch (key.values) {
    case KeyValues::one:
      return one;
    case KeyValues::stages:
      return one + ", by stage";
    case KeyValues::microbatches:
      return one + ", by stage and microbatch or slice";
    case KeyValues::list:
      return fmt::format("a list: {}", one);
  }
  return "";
}

/// Returns the text with each paragraph in lines of at most 120 characters.
std::string wrapped(std::string_view text) {
  constexpr std::size_t kMostColumns = 120;
  std::string result;
  std::size_t column = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const bool starts_line = column == 0;
    if (!starts_line && column + 1 + word.size() > kMostColumns) {
      result += '\n';
      column = 0;
    } else if (!starts_line) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
    at = end;
    for (; at < text.size() && (text[at] == ' ' || text[at] == '\n'); ++at) {
      if (text[at] != '\n') continue;
      result += '\n';
      column = 0;
    }
  }
  return result;
}

std::string page() {
  std::string text(kIntroduction);
  for (const KeyGroup& group : scenario_keys()) {
    text += fmt::format("\n## {}\n\n", heading(group));
    if (!group.about.empty()) text += fmt::format("{}\n\n", wrapped(group.about));
    text += "| key | value | default | meaning |\n|---|---|---|---|\n";
    for (const Key& key : group.keys) {
      text += fmt::format("| `{}` | {} | {} | {} |\n", key.name, value_text(group.path, key), key.usual,
                          key.meaning);
    }
  }
  return text;
}

// --- the schema -----------------------------------------------------------------------------------------

Json quantity(std::string_view units) {
  constexpr std::string_view kNumber = R"([0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?)";
  return {{"anyOf",
           {{{"const", 0}},
            {{"type", "string"}, {"pattern", fmt::format("^\\s*({}\\s*({})|0)\\s*$", kNumber, units)}}}}};
}

Json any_of(std::vector<Json> choices) {
  if (choices.size() == 1) return choices.front();
  return {{"anyOf", std::move(choices)}};
}

Json reference(std::string_view name) { return {{"$ref", fmt::format("#/$defs/{}", name)}}; }

Json word_schema(const Key& key) {
  Json words = Json::array();
  for (const std::string_view word : key.words) {
    words.push_back(word);
    // YAML reads 2 as a number.
    if (word.find_first_not_of("0123456789") == std::string_view::npos)
      words.push_back(std::stoi(std::string(word)));
  }
  return {{"enum", std::move(words)}};
}

Json integer_schema(Range range) {
  return {{"type", "integer"}, {"minimum", range.least}, {"maximum", range.most}};
}

Json forms_at(const std::string& path);

Json one_value_schema(const std::string& path, const Key& key) {
  switch (key.kind) {
    case KeyKind::duration:
      return reference("duration");
    case KeyKind::bytes:
      return reference("bytes");
    case KeyKind::limit:
      return any_of({{{"const", "unlimited"}}, reference("bytes")});
    case KeyKind::bandwidth:
      return any_of({{{"const", "unlimited"}}, reference("bandwidth")});
    case KeyKind::speed:
      return reference("bandwidth");
    case KeyKind::rate:
      return reference("rate");
    case KeyKind::factor:
      return {{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", key.range.most}};
    case KeyKind::number:
      return {{"type", "number"}, {"minimum", 0}};
    case KeyKind::integer:
      return integer_schema(key.range);
    case KeyKind::count:
      return any_of({{{"const", "unlimited"}}, integer_schema(key.range)});
    case KeyKind::flag:
      return {{"enum", {true, false, "true", "on", "yes", "false", "off", "no"}}};
    case KeyKind::word:
      return word_schema(key);
    case KeyKind::name:
    case KeyKind::file:
      return {{"type", {"string", "number"}}};
    case KeyKind::names:
      return {{"type", "array"}, {"items", {{"type", {"string", "number"}}}}};
    case KeyKind::mapping:
      return forms_at(path_of(path, key.name));
    case KeyKind::mappings: {
      std::vector<Json> items = {forms_at(path_of(path, key.name) + "[]")};
      if (!key.form.empty()) items.push_back({{"type", "string"}});
      return {{"type", "array"}, {"items", any_of(std::move(items))}};
    }
    case KeyKind::other:
      return Json::parse(key.schema);
  }
  return true;
}

Json list_of(const Json& item) { return {{"type", "array"}, {"items", item}}; }

/// Returns the schema of {microbatches: [...]} and {file: F.csv, unit: ms, rows: stages}.
Json microbatch_mapping(const Json& one) {
  return {{"type", "object"},
          {"additionalProperties", false},
          {"properties",
           {{"microbatches", list_of(one)},
            {"slices", list_of(one)},
            {"file", {{"type", "string"}}},
            {"unit", {{"type", "string"}}},
            {"rows", {{"enum", {"stages", "microbatches"}}}}}}};
}

/// Returns the schema of {slices: [..]} in a stage's place.
Json slice_mapping(const Json& one) {
  return {{"type", "object"},
          {"additionalProperties", false},
          {"required", {"slices"}},
          {"properties", {{"slices", list_of(one)}}}};
}

Json value_schema(const std::string& path, const Key& key) {
  const Json one = one_value_schema(path, key);
  switch (key.values) {
    case KeyValues::one:
      return one;
    case KeyValues::stages:
      return any_of({one, list_of(one)});
    case KeyValues::microbatches:
      return any_of({one, list_of(any_of({one, list_of(one), slice_mapping(one)})), microbatch_mapping(one)});
    case KeyValues::list:
      return list_of(one);
  }
  return true;
}

Json mapping_schema(const KeyGroup& group) {
  Json properties = Json::object();
  const std::string path(group.path);
  for (const Key& key : group.keys) {
    Json value = value_schema(path, key);
    // Instead of a mapping, each part may be the name of a preset, of a schedule, or of a file.
    if (path.empty() && key.kind == KeyKind::mapping) value = any_of({{{"type", "string"}}, value});
    Json described = {{"description", key.meaning}};
    described.update(value);
    properties[std::string(key.name)] = std::move(described);
  }
  Json mapping = {{"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}};
  Json required = Json::array();
  for (const Key& key : group.keys) {
    if (key.usual == kRequired) required.push_back(key.name);
  }
  if (!required.empty()) mapping["required"] = std::move(required);
  return mapping;
}

Json forms_at(const std::string& path) {
  std::vector<Json> forms;
  for (const KeyGroup& group : groups_at(path)) forms.push_back(mapping_schema(group));
  return any_of(std::move(forms));
}

std::string schema() {
  Json document = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                   {"title", "A scenario of Penstock"},
                   {"$defs",
                    {{"duration", quantity("ns|us|µs|ms|s|min|h")},
                     {"bytes", quantity("[kMGTP]?B|[KMGTP]iB")},
                     {"bandwidth", quantity("([kMGTP]|[KMGTP]i)?(B/s|bit/s|b/s)")},
                     {"rate", quantity("[kMGTP]?(FLOP/s|FLOPS)")},
                     {"partition", forms_at("partition")}}}};
  document.update(forms_at(""));
  return document.dump(2) + '\n';
}

// --- tests ----------------------------------------------------------------------------------------------

std::string read(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

void expect_file(const std::filesystem::path& file, const std::string& expected) {
  if (std::getenv("PENSTOCK_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(file, std::ios::binary) << expected;
    GTEST_SKIP() << file << " written";
  }
  EXPECT_EQ(read(file), expected) << "PENSTOCK_UPDATE_GOLDENS=1 writes " << file;
}

TEST(KeyPages, TheReferenceListsAllKeys) { expect_file(source_path("docs/reference/scenario.md"), page()); }

TEST(KeyPages, TheSchemaListsAllKeys) {
  expect_file(source_path("docs/reference/scenario.schema.json"), schema());
}

TEST(KeyPages, EachKeySaysItsMeaningInOneShortSentence) {
  for (const KeyGroup& group : scenario_keys()) {
    for (const Key& key : group.keys) {
      SCOPED_TRACE(path_of(group.path, key.name));
      EXPECT_TRUE(key.meaning.ends_with('.'));
      for (const std::string& cell :
           {std::string(key.meaning), std::string(key.usual), value_text(group.path, key)})
        EXPECT_LE(cell.size(), 160) << cell;
    }
  }
}

TEST(KeyPages, AKeyStandsOnceInAMapping) {
  for (const KeyGroup& group : scenario_keys()) {
    std::set<std::string_view> names;
    for (const Key& key : group.keys)
      EXPECT_TRUE(names.insert(key.name).second) << path_of(group.path, key.name);
  }
}

TEST(KeyPages, AKeyOfWordsHasThem) {
  for (const KeyGroup& group : scenario_keys()) {
    for (const Key& key : group.keys) {
      EXPECT_EQ(key.kind == KeyKind::word, !key.words.empty()) << path_of(group.path, key.name);
      EXPECT_EQ(key.kind == KeyKind::other, !key.schema.empty()) << path_of(group.path, key.name);
    }
  }
}

}  // namespace
}  // namespace penstock
