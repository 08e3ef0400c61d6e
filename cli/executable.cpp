// Runs the program and catches its exceptions. Errors of users are return values, and other code prints
// them. The exception std::bad_alloc means that a program or model needs too much memory (exit code 2).
// Any other exception means that Penstock itself has a fault (exit code 3).

#include "cli/executable.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/command_line.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "scenarios/host/process_limits.hpp"
#include "scenarios/read/document.hpp"

namespace penstock {

namespace {

/// Sets glibc's allocator so that it retains freed memory. Otherwise each prediction would return its
/// memory to the kernel, and the next prediction would have to get it again, page by page.
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kMebibyte = 1 << 20;
  // With these settings, blocks below 32 MiB come from the heap. The heap retains at most 1 GiB of free
  // memory and grows in steps of at least 4 MiB.
  mallopt(M_MMAP_THRESHOLD, 32 * kMebibyte);
  mallopt(M_TRIM_THRESHOLD, 1024 * kMebibyte);
  mallopt(M_TOP_PAD, 4 * kMebibyte);
#endif
}

/// Opens /dev/null for each standard stream that the caller has closed (`>&-`). Otherwise the next opened
/// file would get the number of this stream, and printed text would go into that file. The function opens
/// /dev/null in the wrong direction (reading or writing), so that any use of the stream still fails.
void keep_numbers_of_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // open() returns the lowest free descriptor. This is `stream`, because all lower ones are open.
    static_cast<void>(open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

}  // namespace

int program_main(int argc, const char* const* argv, AddressSpace addresses, Extensions extensions) {
  if (addresses == AddressSpace::bounded_by_memory) bound_address_space();
  keep_freed_memory();
  keep_numbers_of_closed_streams();
  // NOLINTNEXTLINE(misc-include-cleaner): <csignal> has it
  std::signal(SIGPIPE, SIG_IGN);  // write() to a closed pipe then returns an error.
  // NOLINTNEXTLINE(misc-include-cleaner): <csignal> has it
  std::signal(SIGXFSZ, SIG_IGN);  // write() beyond `ulimit -f` then returns an error.
  try {
    return static_cast<int>(run_command_line(argc, argv, std::move(extensions)));
  } catch (const std::bad_alloc&) {
    write_stderr(
        "penstock: this machine has too little memory for the shape that was asked for; take fewer stages, "
        "microbatches or iterations");
    return static_cast<int>(ExitCode::bad_input);
  } catch (const std::exception& fault) {
    write_stderr(
        fmt::format("penstock: internal error: {}\nThis is a fault of penstock: please report it with the "
                    "command and its files.",
                    fault.what()));
    return static_cast<int>(ExitCode::internal_error);
  }
}

// Limits the address space of this process with RLIMIT_AS. A process started with execv() inherits the limit,
// so become() restores the old limit first.

namespace {

std::optional<rlimit>& bound_before() {
  static std::optional<rlimit> bound;
  return bound;
}

}  // namespace

void bound_address_space() {
// Sanitizers reserve more addresses than the machine has memory, and they have limits of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const auto memory = memory_to_take();
  const auto mapped = addresses_in_use();
  rlimit bound{};
  if (!memory || !mapped || getrlimit(RLIMIT_AS, &bound) != 0) return;
  bound_before() = bound;
  bound.rlim_cur = std::min(bound.rlim_cur, static_cast<rlim_t>(*mapped + *memory));
  // Without the limit, a shape that is too large still fails, but with a less clear message.
  static_cast<void>(setrlimit(RLIMIT_AS, &bound));
#endif
}

void restore_address_space() {
  if (bound_before()) static_cast<void>(setrlimit(RLIMIT_AS, &*bound_before()));
}

// Replaces this process by another executable. `penstock` needs neither LibTorch nor CUDA. The executables
// that need them are in the same folder and accept the same arguments. execv() preserves the process id, the
// terminal and the signals. The folder is read from /proc/self/exe, so it does not depend on the working
// directory or on PATH.

namespace {

/// Replaces standard input by a file with this text, open at its start. Returns true if that worked.
bool replace_standard_input(const std::string& text) {
  const int file = memfd_create("penstock-standard-input", 0);
  if (file < 0) return false;
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = write(file, text.data() + written, text.size() - written);
    if (count <= 0) break;
    written += static_cast<std::size_t>(count);
  }
  const bool is_complete = written == text.size() && lseek(file, 0, SEEK_SET) == 0;
  const bool is_replaced = is_complete && dup2(file, STDIN_FILENO) == STDIN_FILENO;
  close(file);
  return is_replaced;
}

}  // namespace

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
  std::vector<std::string> copies = arguments;  // execv() takes pointers to non-const characters.
  std::vector<char*> pointers;
  pointers.reserve(copies.size() + 1);
  for (std::string& copy : copies) pointers.push_back(copy.data());
  pointers.push_back(nullptr);
  restore_address_space();
  // This process may have read the scenario from standard input. The other executable reads it again.
  const std::optional<std::string>& input = standard_input_already_read();
  if (!input || replace_standard_input(*input)) execv(path.c_str(), pointers.data());
  // execv() returns only if it fails.
  return {.kind = ErrorKind::not_available,
          .message = fmt::format("cannot start {}: {}", path,
                                 std::error_code(errno, std::generic_category()).message())};
}

}  // namespace penstock
