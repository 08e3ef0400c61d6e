// The `penstock` command. Everything but the last resort for faults is in command_line.hpp.

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <fstream>
#include <new>
#include <string>

#include <fmt/format.h>

#include "cli/command_line.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"

namespace {

/// MemAvailable of /proc/meminfo in bytes; 0 where there is no such file.
rlim_t available_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  rlim_t kibibytes = 0;
  for (std::string rest; meminfo >> key >> kibibytes && std::getline(meminfo, rest);) {
    if (key == "MemAvailable:") return kibibytes * 1024;
  }
  return 0;
}

/// Lets a shape that is too large for this machine fail with bad_alloc, instead of having the kernel end some
/// process. Sanitizers reserve more addresses than there is memory and keep their own bounds.
void bound_memory_by_the_machine() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const rlim_t available = available_bytes();
  rlimit bound{};
  if (available == 0 || getrlimit(RLIMIT_AS, &bound) != 0) return;
  bound.rlim_cur = std::min(bound.rlim_cur, available / 4 * 3);
  static_cast<void>(setrlimit(RLIMIT_AS, &bound));  // without it a huge shape only fails less politely
#endif
}

}  // namespace

int main(int argc, char** argv) {
  bound_memory_by_the_machine();
  // NOLINTNEXTLINE(misc-include-cleaner): <csignal> has it
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of write() then
  try {
    return static_cast<int>(penstock::run_command_line(argc, argv));
  } catch (const std::bad_alloc&) {
    penstock::write_stderr(
        "penstock: this machine has too little memory for the shape that was asked for; take fewer stages, "
        "microbatches or iterations");
    return static_cast<int>(penstock::ExitCode::bad_input);
  } catch (const std::exception& fault) {
    penstock::write_stderr(
        fmt::format("penstock: internal error: {}\nThis is a fault of penstock: please report it with the "
                    "command and its files.",
                    fault.what()));
    return static_cast<int>(penstock::ExitCode::internal_error);
  }
}
