#pragma once
// The files that `penstock init` writes. Their texts are in cli/starters, and cli/CMakeLists.txt makes
// starters() from them.

#include <span>
#include <string_view>

namespace penstock {

/// An example file with comments, from which a user starts.
struct Starter {
  std::string_view word;  ///< the word for the command line
  std::string_view file;  ///< the name of the file, relative to the working folder
  std::string_view text;
};

std::span<const Starter> starters();

}  // namespace penstock
