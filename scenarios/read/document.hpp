#pragma once
// A YAML (or JSON) document as a tree that knows where each of its values was written. Made by
// parse_document, edited by override.hpp, read through reader.hpp. yaml-cpp stays in document.cpp.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace penstock {

/// Where text came from: a file, or a flag of the command line.
struct Source {
  std::string name;                 ///< as messages show it: "runs/a.yaml" or "--set cluster.latency"
  std::filesystem::path directory;  ///< what file names in it are relative to
  std::string override_key;         ///< the key of `--set KEY=VALUE`; empty for a file
};

/// One value: a scalar, a list, a mapping, or nothing ("key:" with no value, null).
struct Node {
  enum class Kind : std::uint8_t { nothing, scalar, list, mapping };
  struct Entry;

  Kind kind = Kind::nothing;
  std::string text;            ///< of a scalar, without quotes
  bool is_quoted = false;      ///< of a scalar: "3" is a name where 3 may be a number
  std::vector<Node> items;     ///< of a list
  std::vector<Entry> entries;  ///< of a mapping, in the order written; no key twice
  std::shared_ptr<const Source> source;
  std::int32_t line = 0;    ///< from 1
  std::int32_t column = 0;  ///< from 1

  /// The value of `key`, null when there is none.
  const Node* find(std::string_view key) const;
  Node* find(std::string_view key);
};

/// One key of a mapping with its value; `key` is a scalar.
struct Node::Entry {
  Node key;
  Node value;
};

/// "FILE:LINE:COLUMN", or "--set KEY".
std::string place_of(const Node& node);
/// PLACE: PATH: TEXT. The path is left out where it is empty or the place says it already.
std::string message_at(const Node& node, std::string_view path, std::string_view text);
/// What a message says was found: "\"abc\"", "a list", "a mapping", "nothing".
std::string describe(const Node& node);
/// True of digits, signs and points alone, which was meant to be a number whatever a name may be.
bool looks_like_a_figure(std::string_view text);

/// Reads one document. Errors (PLACE: what is wrong): no content, a syntax error, a key twice, anchors,
/// aliases and tags (which scenarios do not use), a second document, nesting deeper than 100; of TOML and of
/// scripts that they are that.
tl::expected<Node, std::string> parse_document(std::string_view text,
                                               const std::shared_ptr<const Source>& source);

/// The document as YAML text, which reads back as the same tree; places and comments are not in it.
std::string document_to_yaml(const Node& document);

/// Returns a file's content, without a byte order mark. Errors: it does not exist, is a directory, cannot be
/// read, is larger than 64 MiB, is no text; the message starts with `name`, as messages show the file.
tl::expected<std::string, std::string> read_text_file(const std::filesystem::path& path,
                                                      std::string_view name);

}  // namespace penstock
