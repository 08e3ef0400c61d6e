// Starts another executable in place of this one. `penstock` needs neither LibTorch nor CUDA. The executables
// that do are in the same folder and take the same arguments. With execv the process keeps its id, its
// terminal and its signals, and the arguments need no second form. /proc/self/exe gives the folder, whatever
// the working directory or PATH.

#include "cli/other_executable.hpp"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "cli/address_space.hpp"
#include "cli/outcome.hpp"

namespace penstock {

UserError become(std::string_view executable, const std::vector<std::string>& arguments,
                 std::string_view what) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path = (self.parent_path() / executable).string();
  if (!std::filesystem::exists(path, error)) {
    return {
        .kind = ErrorKind::not_available,
        .message = fmt::format("{} needs {}, which was not built or not installed beside {}; the configure "
                               "step says what it did not find",
                               what, executable, self.filename().string())};
  }
  std::vector<std::string> copies = arguments;  // execv() takes pointers to non-const
  std::vector<char*> pointers;
  pointers.reserve(copies.size() + 1);
  for (std::string& copy : copies) pointers.push_back(copy.data());
  pointers.push_back(nullptr);
  restore_address_space();
  execv(path.c_str(), pointers.data());
  // execv() returns only if it fails.
  return {.kind = ErrorKind::not_available,
          .message = fmt::format("cannot start {}: {}", path,
                                 std::error_code(errno, std::generic_category()).message())};
}

}  // namespace penstock
