#pragma once
// Where a test may write files.

#include <filesystem>
#include <string_view>

namespace penstock {

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
