#pragma once
// The executables beside this one that can do more than it (extensions.hpp).

#include <string>
#include <string_view>
#include <vector>

#include "cli/outcome.hpp"

namespace penstock {

/// Becomes the executable of that name, installed beside this one, with the same arguments. Returns only when
/// that is not possible: a failure (exit 77) that says that `what` needs it.
Failure become(std::string_view executable, const std::vector<std::string>& arguments, std::string_view what);

}  // namespace penstock
