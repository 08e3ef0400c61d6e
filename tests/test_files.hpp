#pragma once
// Files that tests read and write: files of the checkout, files of the reference material, and scratch
// folders.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Returns the absolute path of a file or folder. `relative` is its path from the source root. If it is
/// empty, returns the path of the root.
std::string source_path(std::string_view relative = {});

// Folders in which tests may write files.

/// A new folder. The destructor removes it with all its files.
class ScratchFolder {
 public:
  /// Creates the folder. Throws std::system_error if this fails.
  ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();

  const std::filesystem::path& path() const { return path_; }
  /// Writes a file with this text into the folder, and returns its path.
  std::filesystem::path write(std::string_view name, std::string_view text) const;

 private:
  std::filesystem::path path_;
};

}  // namespace penstock

namespace penstock::test {

// Reads files in tests. The reference material, if there is any, is in a folder beside the checkout.

inline const std::filesystem::path kReference = source_path("../shared/reference");

inline std::string text_of(const std::filesystem::path& file) {
  const std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// Returns the sorted files of `folder` whose names end in `ending`. Returns an empty list if there is no
/// such folder.
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
