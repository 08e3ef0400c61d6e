// The file's cells become nodes in the mapping's place, so that reading, --set and messages are those of
// lists that are written out:
//
//   1,3          [[1 ms, 3 ms],        one row: {microbatches: [1 ms, 3 ms]}
//   2,2    ->     [2 ms, 2 ms]]

#include "scenarios/read/microbatch_file.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/read/document.hpp"
#include "scenarios/read/keys.hpp"
#include "scenarios/read/parts.hpp"
#include "scenarios/read/reader.hpp"
#include "text/csv_rows.hpp"

namespace penstock {
namespace {

/// What the mapping says of its file.
struct FileOfFigures {
  NamedFile file;
  std::string unit;  ///< of cells without one; empty: none
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

/// The cell of a row, both from 1.
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

/// At the place of its first item, so that messages name the row. Requires an item.
Node list_of(std::vector<Node> items) {
  Node list = items.front();
  list.kind = Node::Kind::list;
  list.text.clear();
  list.items = std::move(items);
  return list;
}

/// [row][cell] as [cell][row]. Requires rows of one length.
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

/// {microbatches: list}, for all stages.
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
    // {microbatches: [...]} is a mapping as well, and read later.
    if (entry.value.find("file") == nullptr) continue;
    auto figures = figures_of_file(entry.value, fmt::format("model.stages.{}", entry.key.text));
    if (!figures) return tl::unexpected(figures.error());
    entry.value = *std::move(figures);
  }
  return document;
}

}  // namespace penstock
