#pragma once
// Edits of a scenario's document before it is read: parts and figures that are names of files, and
// `--set KEY=VALUE`. Each edit takes a document and returns the changed one. load.cpp applies them.

#include <filesystem>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "scenarios/read/document.hpp"

namespace penstock {

/// Returns the document with the content of all parts. The name of a file becomes its document, or the entry
/// in the document with the part's name. Short forms become mappings: `cluster: uniform` becomes `cluster:
/// {preset: uniform}`, `schedule: 1f1b` becomes `{name: 1f1b}`, and `schedule: a.psched` or `a.csv` becomes
/// `{program: a.psched}`. Errors: a file that cannot be read, a file that includes itself.
tl::expected<Node, std::string> resolve_parts(Node document);

/// The file that a scalar names. Its path is relative to the file that contains the scalar.
struct NamedFile {
  std::filesystem::path path;
  std::string name;  ///< the name in messages
};
NamedFile named_file(const Node& scalar);

/// One edit. Keys are joined by dots. An element of a list is named by its index from 0
/// ("model.stages.forward.2"). The value is YAML ("4us", "[1 ms, 2 ms]", "{preset: uniform}").
struct Override {
  std::string key;
  std::string value;
  /// The name of the edit in messages. If it is empty, they use "--set KEY".
  std::string flag{};

  friend bool operator==(const Override&, const Override&) = default;
};

/// Reads "KEY=VALUE" from a flag. Errors: no '=', an empty key.
tl::expected<Override, std::string> parse_override(std::string_view text);

/// Returns the document with the value set. Missing mappings on the path are added, so that an unknown key is
/// reported when the document is read. Errors: a value that is not YAML, a path through a scalar, an index
/// that is not a number or is outside its list.
tl::expected<Node, std::string> apply_override(Node document, const Override& change);

// Reads figures that differ between microbatches from a separate file, because there may be many:
//
//   forward: {file: times.csv, unit: ms}

/// Returns the document with every `{file: F.csv}` among the keys of model.stages replaced by the file's
/// content. A row is a stage and a cell a microbatch, or the reverse with `rows: microbatches`. A file with
/// one stage applies to all stages. Cells are figures with their unit, and `unit` applies to cells without
/// one. Values from a file have their place in that file. Errors: a file that cannot be read or has no cell,
/// rows of unequal length, an unknown key.
tl::expected<Node, std::string> with_microbatch_files(Node document);

}  // namespace penstock
