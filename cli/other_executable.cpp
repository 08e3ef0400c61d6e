// `penstock` itself needs neither LibTorch nor CUDA. The executables that do lie beside it and take the same
// arguments, so a run that needs one becomes it by execv: same process id, same terminal, same signals, and
// no second way to pass on what the user typed. /proc/self/exe finds the folder whatever the working
// directory or PATH.

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

Failure become(std::string_view executable, const std::vector<std::string>& arguments,
               std::string_view what) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path = (self.parent_path() / executable).string();
  if (!std::filesystem::exists(path, error)) {
    return {
        .code = ExitCode::not_available,
        .message = fmt::format("{} needs {}, which was not built or not installed beside {}; the configure "
                               "step says what it did not find",
                               what, executable, self.filename().string())};
  }
  std::vector<std::string> copies = arguments;  // execv() takes them as if it might write into them
  std::vector<char*> pointers;
  pointers.reserve(copies.size() + 1);
  for (std::string& copy : copies) pointers.push_back(copy.data());
  pointers.push_back(nullptr);
  restore_address_space();
  execv(path.c_str(), pointers.data());
  // Only where that did not work.
  return {.code = ExitCode::not_available,
          .message = fmt::format("cannot start {}: {}", path,
                                 std::error_code(errno, std::generic_category()).message())};
}

}  // namespace penstock
