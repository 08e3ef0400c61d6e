#pragma once
// A YAML (or JSON) document as a tree. Each value in the tree has its line and column in the file.
// parse_document() builds it, document_edits.cpp edits it and reader.hpp reads it. Only document.cpp uses
// yaml-cpp.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

namespace penstock {

/// The source of a text: a file, or a flag of the command line.
struct Source {
  /// The name of the source in messages, such as "runs/a.yaml" or "--set cluster.latency".
  std::string name;
  /// The directory to which file names in the source are relative.
  std::filesystem::path directory;
  std::string override_key;  ///< the key of `--set KEY=VALUE`; empty for a file
};

/// One value: a scalar, a list, a mapping, or nothing ("key:" without a value, or null).
struct Node {
  enum class Kind : std::uint8_t { nothing, scalar, list, mapping };
  struct Entry;

  Kind kind = Kind::nothing;
  std::string text;  ///< the text of a scalar, without quotes
  /// True for a scalar in quotes. The scalar "3" in quotes is a name, even if the key also accepts the number
  /// 3.
  bool is_quoted = false;
  std::vector<Node> items;  ///< the items of a list
  /// The entries of a mapping in the file's order. No key occurs twice.
  std::vector<Entry> entries;
  std::shared_ptr<const Source> source;
  std::int32_t line = 0;    ///< the line, counted from 1
  std::int32_t column = 0;  ///< the column, counted from 1

  /// Returns the value of `key`, or null if the mapping does not have it.
  const Node* find(std::string_view key) const;
  Node* find(std::string_view key);
};

/// One key of a mapping with its value. The key is a scalar.
struct Node::Entry {
  Node key;
  Node value;
};

/// Returns the place of a node in its source, as "FILE:LINE:COLUMN" or "--set KEY".
std::string place_of(const Node& node);
/// Returns the error message "PLACE: PATH: TEXT" for a node. The path is omitted if it is empty or the
/// place already contains it.
std::string message_at(const Node& node, std::string_view path, std::string_view text);
/// Returns the description of a value that an error message shows after "got": "\"abc\"", "a list", "a
/// mapping", or "nothing".
std::string describe(const Node& node);
/// Returns true if the text has only digits, signs and points. An error message then calls it a wrong number,
/// even if the key also accepts names.
bool looks_like_a_figure(std::string_view text);

/// Reads one document. Errors ("PLACE: ..."): no content, a syntax error, a key that occurs twice, a second
/// document, nesting deeper than 100. Anchors, aliases and tags are errors, because scenarios do not use
/// them. If the text is TOML or a script, the message says so.
tl::expected<Node, std::string> parse_document(std::string_view text,
                                               const std::shared_ptr<const Source>& source);

/// Returns the document as YAML text. If the text is read again, it gives the same tree, but without
/// positions in the file and comments.
std::string document_to_yaml(const Node& document);

/// The file name that means standard input.
inline constexpr std::string_view kStandardInput = "-";

/// An object that replaces the text of standard input for the calling thread as long as it exists. A
/// program that uses Penstock as a library can thus pass texts without files. `text` must outlive the
/// object.
class StandardInputText {
 public:
  explicit StandardInputText(std::string_view text);
  ~StandardInputText();
  StandardInputText(const StandardInputText&) = delete;
  StandardInputText& operator=(const StandardInputText&) = delete;
};

/// Returns the text that read_text_file() has read from standard input, or nothing if it has not read it. A
/// program that continues as another executable must pass this text on to it.
const std::optional<std::string>& standard_input_already_read();

/// Returns the content of a file without a byte order mark. If `path` is kStandardInput, it reads standard
/// input to its end; later calls return the same text. Fails if the file does not exist, is a directory,
/// cannot be read, is larger than 64 MiB, or is not text. The message begins with `name`.
tl::expected<std::string, std::string> read_text_file(const std::filesystem::path& path,
                                                      std::string_view name);

// Edits a scenario's document before it is read. Some edits replace the name of a file by the content of
// the file, and others apply `--set KEY=VALUE`. Each function returns the changed document. load.cpp calls
// them.

/// Returns the document with the content of all parts (the values of its top-level keys). If a part is the
/// name of a file, the file's document replaces it. If that document is a scenario with this part, only the
/// part replaces it. Short forms become mappings. For example, `cluster: uniform` becomes
/// `cluster: {preset: uniform}`, `schedule: 1f1b` becomes `schedule: {name: 1f1b}`, and `schedule: a.psched`
/// becomes `schedule: {program: a.psched}`. Returns an error if a file cannot be read or includes itself.
tl::expected<Node, std::string> resolve_parts(Node document);

/// The file that a scalar names. The scalar's text is relative to the directory of the file that contains the
/// scalar.
struct NamedFile {
  std::filesystem::path path;
  std::string name;  ///< the name in messages
};
NamedFile named_file(const Node& scalar);

/// One edit of a document: a key and its new value. Keys are joined by dots, and an element of a list is
/// named by its index from 0 ("model.stages.forward.2"). The value is YAML ("4us", "[1 ms, 2 ms]",
/// "{preset: uniform}").
struct Override {
  std::string key;
  std::string value;
  /// The name of the edit in messages. If it is empty, messages name the edit "--set KEY".
  std::string flag{};

  friend bool operator==(const Override&, const Override&) = default;
};

/// Reads "KEY=VALUE" from a flag. Fails if there is no '=' or if the key is empty.
tl::expected<Override, std::string> parse_override(std::string_view text);

/// Returns the document with the value set. Missing mappings on the path are added. An unknown key is
/// reported later, when the document is read. Fails if the value is not YAML, if the path goes through a
/// scalar, or if an index is not a number or is outside its list.
tl::expected<Node, std::string> apply_override(Node document, const Override& change);

// Reads figures that differ between microbatches from a separate file, because a scenario may have many such
// figures:
//
//   forward: {file: times.csv, unit: ms}

/// Returns the document with every `{file: F.csv}` under model.stages replaced by the content of the file.
/// Each row of the file belongs to a stage, and each cell of the row to a microbatch. With `rows:
/// microbatches`, each row belongs to a microbatch, and each cell to a stage. A file with one stage applies
/// to all stages. Cells are numbers with a unit, and `unit` applies to cells without one. Error messages
/// about a value from a file name that file. Fails if a file cannot be read or has no cell, if its rows have
/// unequal lengths, or if a key is unknown.
tl::expected<Node, std::string> with_microbatch_files(Node document);

}  // namespace penstock
