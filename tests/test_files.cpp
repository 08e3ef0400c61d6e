// Finds the files of the checkout. Only this source file of the tests gets the path of the checkout from the
// build. Other source files therefore do not depend on the path, and a compiler cache works for every
// checkout. Names of scratch folders are random (mkdtemp), so that tests of several users and processes use
// different folders.

#include "tests/test_files.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace penstock {

std::string source_path(std::string_view relative) {
  std::string path = PENSTOCK_SOURCE_DIR;
  if (!relative.empty()) path.append("/").append(relative);
  return path;
}

ScratchFolder::ScratchFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "penstock-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path ScratchFolder::write(std::string_view name, std::string_view text) const {
  std::filesystem::path file = path_ / name;
  std::ofstream(file, std::ios::binary) << text;
  return file;
}

}  // namespace penstock
