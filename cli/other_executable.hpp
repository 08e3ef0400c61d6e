#pragma once
// Starts the executables beside this one that have extensions (extensions.hpp).

#include <string>
#include <string_view>
#include <vector>

#include "cli/outcome.hpp"

namespace penstock {

/// Replaces this process by the executable of that name in the same folder, with the same arguments. Returns
/// only if that fails, with a failure (exit 77) which says that `what` needs it.
UserError become(std::string_view executable, const std::vector<std::string>& arguments,
                 std::string_view what);

}  // namespace penstock
