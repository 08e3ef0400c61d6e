#pragma once
// Reading files in tests, and where the reference material lies beside a checkout that has it.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/source_path.hpp"

namespace penstock::test {

inline const std::filesystem::path kReference = source_path("../shared/reference");

inline std::string text_of(const std::filesystem::path& file) {
  const std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// The files of `folder` whose names end in `ending`, sorted; none when there is no such folder.
inline std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder,
                                                   std::string_view ending) {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::is_directory(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().ends_with(ending)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace penstock::test
