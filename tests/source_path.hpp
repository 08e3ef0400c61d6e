#pragma once
// Files of the checkout that the tests were built from. A function, so that no test's command line holds a
// path, and a compiler cache serves every checkout.

#include <string>
#include <string_view>

namespace penstock {

/// The absolute path of a file or folder that is named from the source root; of the root itself where empty.
std::string source_path(std::string_view relative = {});

}  // namespace penstock
