#pragma once
// Makes the text of `penstock --version`.

#include <string>
#include <string_view>

namespace penstock {

/// Returns the commit from which this program was built, or a text which says that it is unknown.
/// cmake/commit.cmake generates the definition in every build.
std::string_view built_commit();

/// The texts that CMake writes. `version` is Penstock's version. Each other text is the version of that part,
/// or "left out: " and the reason.
struct BuiltParts {
  std::string_view version;
  std::string_view torch;
  std::string_view cuda;
  std::string_view nccl;
};

/// Returns the texts of this build. CMake generates the definition from cli/built_parts.cpp.in.
BuiltParts built_parts();

/// Returns a text with the version and the commit. For each optional part, it also has the part's version,
/// or the reason why the part is missing.
std::string version_text();

}  // namespace penstock
