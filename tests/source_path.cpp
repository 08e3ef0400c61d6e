// The one source of the tests that knows where the checkout lies.

#include "tests/source_path.hpp"

#include <string>
#include <string_view>

namespace penstock {

std::string source_path(std::string_view relative) {
  std::string path = PENSTOCK_SOURCE_DIR;
  if (!relative.empty()) path.append("/").append(relative);
  return path;
}

}  // namespace penstock
