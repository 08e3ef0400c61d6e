#pragma once
// Files that tests read and write: those of the checkout, those of the reference material, and scratch
// folders.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// The absolute path of a file or folder that is named from the source root; of the root itself where empty.
std::string source_path(std::string_view relative = {});

// Where a test may write files.

/// A new folder, which goes with all that is in it.
class ScratchFolder {
 public:
  /// Throws std::system_error when none can be made.
  ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();

  const std::filesystem::path& path() const { return path_; }
  /// The path of a file in it, which has `text` after this.
  std::filesystem::path write(std::string_view name, std::string_view text) const;

 private:
  std::filesystem::path path_;
};

}  // namespace penstock

namespace penstock::test {

// Reading files in tests, and where the reference material lies beside a checkout that has it.

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
