// Applies an override. It follows its key down the tree, and replaces or adds the value at the end. New nodes
// have the flag as their place, so that later messages name the flag.

#include "scenarios/read/override.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <boost/algorithm/string/split.hpp>
#include <tl/expected.hpp>

#include "scenarios/read/document.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

/// Returns the parts of a key. "a..b" has an empty part, which child() refuses.
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

/// Returns the element `part` of `list`. `path` is the list's name in messages.
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

/// Returns the child `part` of `node`, and adds a missing key.
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

}  // namespace penstock
