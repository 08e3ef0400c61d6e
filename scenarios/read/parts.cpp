// A part that is a scalar is a well-known word or else the name of a file that holds the part, alone or among
// others. There it may again be a file's name, so the names that led here are kept to find a circle.

#include "scenarios/read/parts.hpp"

#include <algorithm>
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
#include <tl/expected.hpp>

#include "scenarios/read/document.hpp"
#include "scenarios/read/file_suffix.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/rules/schedule_names.hpp"
#include "text/nearest_name.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

/// `{key: scalar}` in the scalar's place.
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

/// A rule has no suffix of a document; what is neither a rule nor a file is for read_partition() to refuse.
bool is_partition_word(const std::string& text) {
  const std::filesystem::path extension = std::filesystem::path(text).extension();
  return extension != ".yaml" && extension != ".yml" && extension != ".json";
}

/// Returns "; did you mean uniform?" of a word that is spelled like a name of that part, and nothing of a
/// path.
std::string likely_word(const std::string& typed, std::string_view part) {
  // The user who typed a path meant a file; a preset's name would only confuse.
  if (typed.find_first_of("./\\") != std::string::npos) return "";
  if (part == "cluster") return did_you_mean(typed, cluster_presets());
  if (part != "schedule") return "";
  const auto likely = likely_schedule(typed);
  return likely ? fmt::format("; did you mean {}?", *likely) : "";
}

/// What a scalar may be instead of a file's name.
std::string alternatives(std::string_view part) {
  if (part == "cluster")
    return fmt::format("a mapping, a preset ({}) or a file", fmt::join(cluster_presets(), ", "));
  if (part == "schedule")
    return "a mapping, the name of a schedule (`penstock schedules` lists them) or a file";
  return "a mapping or a file";
}

/// What a well-known word stands for; nothing where the scalar is none.
std::optional<Node> of_word(const Node& value, std::string_view part) {
  if (part == "cluster" && is_cluster_word(value.text)) return wrapped("preset", value);
  if (part == "schedule" && names_program(value.text)) return wrapped("program", value);
  if (part == "schedule" && find_schedule(value.text) != nullptr) return wrapped("name", value);
  if (part == "partition" && is_partition_word(value.text)) return value;
  return std::nullopt;
}

/// A file may hold the part alone, or several parts by their names, as a scenario does.
Node of_part(Node document, std::string_view part) {
  Node* named = document.find(part);
  return named == nullptr ? std::move(document) : Node(std::move(*named));
}

/// The first words of a line, as a message shows them.
std::string shown_line(std::string_view text, std::int32_t line) {
  constexpr std::size_t kMost = 40;
  for (; line > 1; --line) text.remove_prefix(std::min(text.find('\n') + 1, text.size()));
  const std::string_view shown = text.substr(0, std::min(text.find_first_of("\r\n"), kMost));
  return fmt::format("\"{}{}\"", shown, shown.size() < text.size() ? "..." : "");
}

/// Replaces a file's name by the file's document until no name is left.
tl::expected<Node, std::string> included(Node scalar, std::string_view part) {
  // Absolute and without dots, so that one file is known again whatever way it was named.
  std::vector<std::filesystem::path> visited;
  if (scalar.source && scalar.source->override_key.empty()) {
    visited.push_back(std::filesystem::path(scalar.source->directory) /
                      std::filesystem::path(scalar.source->name).filename());
  }
  for (auto& path : visited) path = std::filesystem::absolute(path).lexically_normal();
  // A file may name another file. This ends, since no file is visited twice.
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
    auto document = parse_document(
        *text, std::make_shared<const Source>(
                   Source{.name = file.name, .directory = file.path.parent_path(), .override_key = ""}));
    if (!document) return tl::unexpected(document.error());
    std::error_code unknown;
    const bool is_bare = document->kind == Node::Kind::scalar;
    scalar = of_part(*std::move(document), part);
    if (auto written_out = scalar.kind == Node::Kind::scalar ? of_word(scalar, part) : std::nullopt)
      return *std::move(written_out);
    // A file of any other kind, which names no further one: what it holds is not for every log.
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

}  // namespace penstock
