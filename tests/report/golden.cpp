#include "tests/report/golden.hpp"
#include "tests/source_path.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace penstock::sample {

std::string golden(std::string_view name, std::string_view actual) {
  const std::string path = source_path("tests/report/golden/") + std::string(name);
  const char* const update = std::getenv("PENSTOCK_UPDATE_GOLDENS");
  if (update != nullptr && std::string_view(update) == "1") std::ofstream(path, std::ios::binary) << actual;
  std::ifstream file(path, std::ios::binary);
  if (!file) return "cannot read " + path + "; run the test with PENSTOCK_UPDATE_GOLDENS=1 to write it";
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace penstock::sample
