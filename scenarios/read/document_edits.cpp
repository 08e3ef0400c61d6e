// Edits the tree of a scenario before it is read. It inserts named parts, applies overrides, and inserts
// files of figures.
//
// A part of a scenario, such as `cluster:`, may be one word. The word is a known name (a preset, a rule), or
// the name of a file with this part. The file may name another file, so visited files are stored to find a
// cycle.

#include "scenarios/read/document.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/algorithm/string/split.hpp>
#include <tl/expected.hpp>

#include "scenarios/read/load.hpp"
#include "scenarios/read/machine.hpp"
#include "scenarios/read/reader.hpp"
#include "schedules/rules/generators.hpp"
#include "text/csv_table.hpp"
#include "text/enum_words.hpp"
#include "text/numbers.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

/// Returns the mapping `{key: scalar}`. The mapping has the same line and column as the scalar.
Node wrapped(std::string_view key, Node scalar) {
  Node mapping = scalar;
  mapping.kind = Node::Kind::mapping;
  mapping.text.clear();
  Node key_node = scalar;
  key_node.text = key;
  mapping.entries.push_back({.key = std::move(key_node), .value = std::move(scalar)});
  return mapping;
}

bool is_cluster_word(const std::string& text) {
  return text == "uniform" || text == "two-level" || text == "torus" || find_preset(text) != nullptr ||
         find_torus_preset(text) != nullptr;
}

/// Returns true if the text names a partition rule and not a file. A file has the suffix of YAML or JSON.
/// read_partition() later refuses unknown rules.
bool is_partition_word(const std::string& text) {
  const std::filesystem::path extension = std::filesystem::path(text).extension();
  return extension != ".yaml" && extension != ".yml" && extension != ".json";
}

/// Returns a hint such as "; did you mean uniform?" if the typed word is similar to a known word for this
/// part of the scenario. For other words and for paths it returns an empty text.
std::string likely_word(const std::string& typed, std::string_view part) {
  // The user wanted to name a file, so the name of a preset would not help.
  if (typed.find_first_of("./\\") != std::string::npos) return "";
  if (part == "cluster") return did_you_mean(typed, cluster_presets());
  if (part != "schedule") return "";
  const auto likely = likely_schedule(typed);
  return likely ? fmt::format("; did you mean {}?", *likely) : "";
}

/// Returns a text for messages that lists the possible values of a part of the scenario.
std::string alternatives(std::string_view part) {
  if (part == "cluster")
    return fmt::format("a mapping, a preset ({}) or a file", fmt::join(cluster_presets(), ", "));
  if (part == "schedule")
    return "a mapping, the name of a schedule (`penstock schedules` lists them) or a file";
  return "a mapping or a file";
}

/// Returns the mapping that a known word stands for, or nothing if the scalar is not a known word.
std::optional<Node> of_word(const Node& value, std::string_view part) {
  if (part == "cluster" && is_cluster_word(value.text)) return wrapped("preset", value);
  if (part == "schedule" && names_program(value.text)) return wrapped("program", value);
  if (part == "schedule" && find_schedule(value.text) != nullptr) return wrapped("name", value);
  if (part == "partition" && is_partition_word(value.text)) return value;
  return std::nullopt;
}

/// Returns the part of a scenario that a file's document contains. The document is either the part itself,
/// or a scenario that has the part under its name.
Node of_part(Node document, std::string_view part) {
  Node* named = document.find(part);
  return named == nullptr ? std::move(document) : Node(std::move(*named));
}

/// Returns the text of line `line` in quotes, for messages. After 40 characters, "..." replaces the rest.
std::string shown_line(std::string_view text, std::int32_t line) {
  constexpr std::size_t kMost = 40;
  for (; line > 1; --line) text.remove_prefix(std::min(text.find('\n') + 1, text.size()));
  const std::string_view shown = text.substr(0, std::min(text.find_first_of("\r\n"), kMost));
  return fmt::format("\"{}{}\"", shown, shown.size() < text.size() ? "..." : "");
}

/// Replaces a file's name by the document of the file. If this document is again the name of a file, it is
/// replaced in turn.
tl::expected<Node, std::string> included(Node scalar, std::string_view part) {
  // Paths are absolute and contain no "." or "..", so that different spellings of one path are equal.
  std::vector<std::filesystem::path> visited;
  if (scalar.source && scalar.source->override_key.empty()) {
    visited.push_back(std::filesystem::path(scalar.source->directory) /
                      std::filesystem::path(scalar.source->name).filename());
  }
  for (auto& path : visited) path = std::filesystem::absolute(path).lexically_normal();
  // The loop ends, because no file is visited twice.
  while (scalar.kind == Node::Kind::scalar) {
    const NamedFile file = named_file(scalar);
    const std::filesystem::path full = std::filesystem::absolute(file.path).lexically_normal();
    if (std::ranges::find(visited, full) != visited.end()) {
      return tl::unexpected(message_at(scalar, part, fmt::format("the file {} includes itself", file.name)));
    }
    visited.push_back(full);
    const auto text = read_text_file(file.path, file.name);
    if (!text) {
      return tl::unexpected(
          message_at(scalar, part,
                     fmt::format("expected {}, got {}: {}{}", alternatives(part), describe(scalar),
                                 text.error(), likely_word(scalar.text, part))));
    }
    if (part == "cluster" && machine_format(*text) != MachineFormat::none)
      return wrapped("machine", std::move(scalar));
    auto document = parse_document(
        *text, std::make_shared<const Source>(
                   Source{.name = file.name, .directory = file.path.parent_path(), .override_key = ""}));
    if (!document) return tl::unexpected(document.error());
    std::error_code unknown;
    const bool is_bare = document->kind == Node::Kind::scalar;
    scalar = of_part(*std::move(document), part);
    if (auto written_out = scalar.kind == Node::Kind::scalar ? of_word(scalar, part) : std::nullopt)
      return *std::move(written_out);
    // The file contains other text, for example because the user gave a wrong name. The message quotes only
    // the beginning of a line, because the text may be secret.
    if (is_bare && !std::filesystem::exists(named_file(scalar).path, unknown)) {
      return tl::unexpected(message_at(
          scalar, part, fmt::format("expected a mapping, got {}", shown_line(*text, scalar.line))));
    }
  }
  return scalar;
}

tl::expected<Node, std::string> resolved(Node value, std::string_view part) {
  if (auto written_out = of_word(value, part)) return *std::move(written_out);
  return included(std::move(value), part);
}

}  // namespace

NamedFile named_file(const Node& scalar) {
  const std::filesystem::path text(scalar.text);
  if (text.is_absolute() || !scalar.source) return {.path = text, .name = scalar.text};
  const std::filesystem::path shown_directory = scalar.source->override_key.empty()
                                                    ? std::filesystem::path(scalar.source->name).parent_path()
                                                    : scalar.source->directory;
  return {.path = scalar.source->directory / text,
          .name = (shown_directory / text).lexically_normal().string()};
}

tl::expected<Node, std::string> resolve_parts(Node document) {
  for (const std::string_view part :
       {"model", "cluster", "host", "parallel", "schedule", "partition", "training"}) {
    Node* value = document.find(part);
    if (value == nullptr || value->kind != Node::Kind::scalar) continue;
    auto written_out = resolved(std::move(*value), part);
    if (!written_out) return tl::unexpected(written_out.error());
    *value = *std::move(written_out);
  }
  return document;
}

// Applies an override such as --set. It goes down the tree along the parts of the key, and replaces or adds
// the value there. Messages about new nodes name the flag instead of a line.

namespace {

/// Splits a key such as "a.b" at its points. "a..b" has an empty part, which child() refuses.
std::vector<std::string> split_key(std::string_view key) {
  std::vector<std::string> parts;
  boost::algorithm::split(parts, key, [](char c) { return c == '.'; });
  return parts;
}

Node made(Node::Kind kind, const std::shared_ptr<const Source>& source) {
  Node node;
  node.kind = kind;
  node.source = source;
  return node;
}

/// Returns the element of `list` with the index in the text `part`. `path` is the list's name in messages.
tl::expected<Node*, std::string> element(Node& list, const std::string& part, const std::string& path,
                                         const Source& source) {
  const auto index = number_of_text<std::uint64_t>(part);
  if (!index || *index >= list.items.size()) {
    return tl::unexpected(fmt::format("{}: {} is a list of {}: expected an index from 0 to {}, got \"{}\"",
                                      source.name, path, list.items.size(),
                                      list.items.empty() ? 0 : list.items.size() - 1, part));
  }
  return &list.items[*index];
}

/// Returns the value of the key `part` in the mapping `node`, or the element `part` if `node` is a list. A
/// missing key is added.
tl::expected<Node*, std::string> child(Node& node, const std::string& part, const std::string& path,
                                       const std::shared_ptr<const Source>& source) {
  if (part.empty())
    return tl::unexpected(fmt::format("{}: expected keys joined by single dots", source->name));
  if (node.kind == Node::Kind::list) return element(node, part, path, *source);
  if (node.kind == Node::Kind::scalar) {
    return tl::unexpected(
        fmt::format("{}: {} is {}, which has no key {}", source->name, path, describe(node), part));
  }
  // A key without a value, such as `training:`, becomes a mapping.
  if (node.kind == Node::Kind::nothing) node = made(Node::Kind::mapping, source);
  if (Node* found = node.find(part)) return found;
  Node key = made(Node::Kind::scalar, source);
  key.text = part;
  node.entries.push_back({.key = std::move(key), .value = made(Node::Kind::nothing, source)});
  return &node.entries.back().value;
}

tl::expected<Node, std::string> parse_value(const Override& change,
                                            const std::shared_ptr<const Source>& source) {
  if (change.value.find_first_not_of(" \t\r\n") == std::string::npos) {
    return tl::unexpected(fmt::format("{}: expected a value{}, got nothing", source->name,
                                      change.flag.empty() ? " after '='" : ""));
  }
  return parse_document(change.value, source);
}

}  // namespace

tl::expected<Override, std::string> parse_override(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return tl::unexpected(
        fmt::format("--set: expected KEY=VALUE such as cluster.latency=4us, got \"{}\"", text));
  }
  return Override{.key = std::string(text.substr(0, equals)), .value = std::string(text.substr(equals + 1))};
}

tl::expected<Node, std::string> apply_override(Node document, const Override& change) {
  // If the value names a file, the name is relative to the scenario's directory.
  const std::filesystem::path directory =
      document.source ? document.source->directory : std::filesystem::path{};
  const auto source =
      std::make_shared<const Source>(Source{.name = change.flag.empty() ? "--set " + change.key : change.flag,
                                            .directory = directory,
                                            .override_key = change.key});
  // The value is YAML, so that it can be a list or a mapping, as in the file.
  auto value = parse_value(change, source);
  if (!value) return tl::unexpected(value.error());
  Node* node = &document;
  std::string path;
  for (const std::string& part : split_key(change.key)) {
    const auto next = child(*node, part, path.empty() ? "the scenario" : path, source);
    if (!next) return tl::unexpected(next.error());
    node = *next;
    path += (path.empty() ? "" : ".") + part;
  }
  *node = *std::move(value);
  return document;
}

// Replaces the mapping {file: F.csv, ...} by the figures of the CSV file. The cells become lists of nodes, as
// if the user had written the lists in the scenario:
//
//   1,3          [[1 ms, 3 ms],        a file of one row: {microbatches: [1 ms, 3 ms]}
//   2,2    ->     [2 ms, 2 ms]]

namespace {

/// The content of a mapping {file: F.csv, unit: ms, rows: stages}.
struct FileOfFigures {
  NamedFile file;
  std::string unit;  ///< the unit of cells that state no unit; empty if the mapping has none
  bool rows_are_microbatches = false;
};

tl::expected<FileOfFigures, std::string> read_mapping(const Node& mapping, const std::string& path) {
  static constexpr std::array<std::string_view, 2> kRowWords = {"stages", "microbatches"};
  static constexpr std::array kKeys = {Key{.name = "file", .kind = KeyKind::file},
                                       Key{.name = "unit", .kind = KeyKind::name},
                                       Key{.name = "rows", .kind = KeyKind::word, .words = kRowWords}};
  Problem problem;
  const MappingReader reader(mapping, path, kKeys, problem);
  reader.word("file");
  FileOfFigures of{.file = {},
                   .unit = reader.word("unit").value_or(""),
                   .rows_are_microbatches = reader.choice_word("rows") == kRowWords[1]};
  if (problem.found()) return tl::unexpected(problem.message());
  of.file = named_file(*mapping.find("file"));
  return of;
}

/// Returns the scalar node of one cell of a CSV file. `line` and `cell` are counted from 1.
Node cell_at(const std::shared_ptr<const Source>& source, std::size_t line, std::size_t cell,
             std::string text) {
  Node node;
  node.kind = Node::Kind::scalar;
  node.text = std::move(text);
  node.source = source;
  node.line = static_cast<std::int32_t>(line);
  node.column = static_cast<std::int32_t>(cell);
  return node;
}

bool has_unit(std::string_view cell) {
  return cell.find_last_not_of("0123456789.eE+- ") != std::string_view::npos;
}

/// Returns a list with the line and column of its first item, so that messages name the row. Requires at
/// least one item.
Node list_of(std::vector<Node> items) {
  Node list = items.front();
  list.kind = Node::Kind::list;
  list.text.clear();
  list.items = std::move(items);
  return list;
}

/// Returns the nodes with rows and columns exchanged: indexed [cell][row] instead of [row][cell]. Requires
/// rows of equal length.
std::vector<std::vector<Node>> transposed(std::vector<std::vector<Node>> rows) {
  std::vector<std::vector<Node>> columns(rows.front().size());
  for (std::vector<Node>& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) columns[i].push_back(std::move(row[i]));
  }
  return columns;
}

tl::expected<std::vector<std::vector<Node>>, std::string> read_rows(const FileOfFigures& of) {
  const auto text = read_text_file(of.file.path, of.file.name);
  if (!text) return tl::unexpected(text.error());
  const auto rows = csv_rows(*text);
  if (!rows)
    return tl::unexpected(fmt::format("{}:{}: {}", of.file.name, rows.error().line, rows.error().message));
  const auto source = std::make_shared<const Source>(
      Source{.name = of.file.name, .directory = of.file.path.parent_path(), .override_key = ""});
  std::vector<std::vector<Node>> nodes;
  for (const CsvRow& row : *rows) {
    if (row.cells.empty() || (row.cells.size() == 1 && row.cells.front().empty())) continue;
    if (!nodes.empty() && nodes.front().size() != row.cells.size()) {
      return tl::unexpected(fmt::format("{}:{}: expected {} cells as in the rows before, got {}",
                                        of.file.name, row.line, nodes.front().size(), row.cells.size()));
    }
    std::vector<Node>& cells = nodes.emplace_back();
    for (const std::string& cell : row.cells) {
      const bool takes_unit = !of.unit.empty() && !has_unit(cell);
      cells.push_back(cell_at(source, row.line, cells.size() + 1,
                              takes_unit ? fmt::format("{} {}", cell, of.unit) : cell));
    }
  }
  if (nodes.empty()) {
    return tl::unexpected(
        fmt::format("{}: expected a row a stage and a cell a microbatch, got an empty file", of.file.name));
  }
  return of.rows_are_microbatches ? transposed(std::move(nodes)) : std::move(nodes);
}

/// Returns the mapping {microbatches: list}. It states one list of values for the microbatches, which applies
/// to all stages.
Node for_all_stages(Node list) {
  Node mapping = list;
  mapping.kind = Node::Kind::mapping;
  mapping.items.clear();
  Node key = mapping;
  key.kind = Node::Kind::scalar;
  key.text = "microbatches";
  mapping.entries.push_back({.key = std::move(key), .value = std::move(list)});
  return mapping;
}

tl::expected<Node, std::string> figures_of_file(const Node& mapping, const std::string& path) {
  const auto of = read_mapping(mapping, path);
  if (!of) return tl::unexpected(of.error());
  auto rows = read_rows(*of);
  if (!rows) return tl::unexpected(message_at(mapping, path, rows.error()));
  std::vector<Node> lists;
  lists.reserve(rows->size());
  for (std::vector<Node>& row : *rows) lists.push_back(list_of(std::move(row)));
  return lists.size() == 1 ? for_all_stages(std::move(lists.front())) : list_of(std::move(lists));
}

}  // namespace

tl::expected<Node, std::string> with_microbatch_files(Node document) {
  Node* model = document.find("model");
  Node* stages = model == nullptr ? nullptr : model->find("stages");
  if (stages == nullptr) return document;
  for (Node::Entry& entry : stages->entries) {
    // {microbatches: [...]} is a mapping too, but MappingReader reads it later.
    if (entry.value.find("file") == nullptr) continue;
    auto figures = figures_of_file(entry.value, fmt::format("model.stages.{}", entry.key.text));
    if (!figures) return tl::unexpected(figures.error());
    entry.value = *std::move(figures);
  }
  return document;
}

}  // namespace penstock
