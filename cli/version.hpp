#pragma once
// The text of `penstock --version`.

#include <string>
#include <string_view>

namespace penstock {

/// Returns the commit that was built, or that it is unknown. cmake/commit.cmake writes the definition in
/// every build.
std::string_view built_commit();

/// The texts that CMake has found: the version, and for each part its version, or "left out: " and the
/// reason.
struct BuiltParts {
  std::string_view version;
  std::string_view torch;
  std::string_view cuda;
  std::string_view nccl;
};

/// Returns the texts of this build. cli/built_parts.cpp.in, which CMake fills in, has the definition.
BuiltParts built_parts();

/// Returns the version, the commit, and for each optional part its version or why it is missing.
std::string version_text();

}  // namespace penstock
