// This is the one source of the tests that knows where the checkout lies. The build passes the folder to it
// alone, so that a compiler cache serves every checkout. Scratch folders get drawn names (mkdtemp), so that
// tests of several users and processes do not meet.

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
