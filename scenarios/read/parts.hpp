#pragma once
// Replaces the names of files in a scenario by their content, because each part of a scenario may be a file.
// Used by load.hpp, also for other files that a scenario names.

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

}  // namespace penstock
