#pragma once
// What `penstock --version` says.

#include <string>
#include <string_view>

namespace penstock {

/// The commit that was built, or that there is none. cmake/commit.cmake writes the definition in every build.
std::string_view built_commit();

/// Version, commit, and each part that may be left out: its version, or why it is not there.
std::string version_text();

}  // namespace penstock
