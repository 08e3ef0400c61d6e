#pragma once
// Each part of a scenario may be the name of a file; here the names are replaced by what the files hold. Used
// by load.hpp, also for the other files that a scenario names.

#include <filesystem>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "scenarios/read/document.hpp"

namespace penstock {

/// The document with every part written out: a file's name becomes its document, or what that has under the
/// part's name, `cluster: uniform` becomes `cluster: {preset: uniform}`, `schedule: 1f1b` becomes `{name:
/// 1f1b}` and `schedule: a.psched` or `a.csv` becomes `{program: a.psched}`. Errors: a file that cannot be
/// read, a file that includes itself.
tl::expected<Node, std::string> resolve_parts(Node document);

/// A file that a scalar names, relative to the file that the scalar stands in.
struct NamedFile {
  std::filesystem::path path;
  std::string name;  ///< as messages show it
};
NamedFile named_file(const Node& scalar);

}  // namespace penstock
