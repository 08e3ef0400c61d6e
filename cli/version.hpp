#pragma once
// What `penstock --version` says.

#include <string>
#include <string_view>

namespace penstock {

/// The commit that was built, or that there is none. cmake/commit.cmake writes the definition in every build.
std::string_view built_commit();

/// The texts that CMake has found out: the version, and of each part its version, or "left out: " and the
/// reason.
struct BuiltParts {
  std::string_view version;
  std::string_view torch;
  std::string_view cuda;
  std::string_view nccl;
  std::string_view mpi;
};

/// Returns the texts of this build. cli/built_parts.cpp.in, which CMake fills in, has the definition.
BuiltParts built_parts();

/// Version, commit, and each part that may be left out: its version, or why it is not there.
std::string version_text();

}  // namespace penstock
