#pragma once
// Edits a scenario's document before it is read. Some edits replace the name of a file by the content of
// the file, and others apply `--set KEY=VALUE`. Each function returns the changed document. load.cpp calls
// them.

#include <filesystem>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "scenarios/read/document.hpp"

namespace penstock {

/// Returns the document with the content of all parts. If a part is the name of a file, the file's document
/// replaces it. If that document is a scenario with this part, only the part replaces it. Short forms become
/// mappings: `cluster: uniform` becomes `cluster: {preset: uniform}`, `schedule: 1f1b` becomes `{name:
/// 1f1b}`, and `schedule: a.psched` or `a.csv` becomes `{program: a.psched}`. Errors: a file that cannot be
/// read, a file that includes itself.
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

/// Reads "KEY=VALUE" from a flag. Errors: no '=', an empty key.
tl::expected<Override, std::string> parse_override(std::string_view text);

/// Returns the document with the value set. Missing mappings on the path are added. An unknown key is
/// reported later, when the document is read. Errors: a value that is not YAML, a path through a scalar, an
/// index that is not a number or is outside its list.
tl::expected<Node, std::string> apply_override(Node document, const Override& change);

// Reads figures that differ between microbatches from a separate file, because a scenario may have many such
// figures:
//
//   forward: {file: times.csv, unit: ms}

/// Returns the document with every `{file: F.csv}` under model.stages replaced by the content of the file.
/// Each row of the file belongs to a stage, and each cell of the row to a microbatch. With `rows:
/// microbatches`, it is the other way round. A file with one stage applies to all stages. Cells are figures
/// with a unit, and `unit` applies to cells without one. Error messages about a value from a file name that
/// file. Errors: a file that cannot be read or has no cell; rows of unequal length; an unknown key.
tl::expected<Node, std::string> with_microbatch_files(Node document);

}  // namespace penstock
