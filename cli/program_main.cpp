// Runs the program and catches its exceptions. Errors of users are values, which other code prints. A
// std::bad_alloc that arrives here means that a shape needs too much memory (exit 2, address_space.hpp). Any
// other exception is a fault of the program (exit 3).

#include "cli/program_main.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "cli/address_space.hpp"
#include "cli/command_line.hpp"
#include "cli/extensions.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"

namespace penstock {
namespace {

/// Makes glibc retain freed memory in the process. Otherwise glibc would return the memory of each prediction
/// to the kernel and request it again, page by page.
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kMebibyte = 1 << 20;
  // Blocks below 32 MiB come from the heap. The heap retains up to 1 GiB of free memory and grows by at least
  // 4 MiB.
  mallopt(M_MMAP_THRESHOLD, 32 * kMebibyte);
  mallopt(M_TRIM_THRESHOLD, 1024 * kMebibyte);
  mallopt(M_TOP_PAD, 4 * kMebibyte);
#endif
}

/// Occupies the descriptors of standard streams that the caller has closed (`>&-`). Otherwise the next opened
/// file would get such a number, and printed text would go into that file. Each descriptor is opened for the
/// wrong direction, so that using the stream still fails.
void keep_numbers_of_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // open() returns the lowest free descriptor. That is `stream`, because all lower ones are in use.
    static_cast<void>(open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

}  // namespace

int program_main(int argc, const char* const* argv, AddressSpace addresses, Extensions extensions) {
  if (addresses == AddressSpace::bounded_by_memory) bound_address_space();
  keep_freed_memory();
  keep_numbers_of_closed_streams();
  // NOLINTNEXTLINE(misc-include-cleaner): <csignal> has it
  std::signal(SIGPIPE, SIG_IGN);  // makes write() to a closed pipe return an error
  // NOLINTNEXTLINE(misc-include-cleaner): <csignal> has it
  std::signal(SIGXFSZ, SIG_IGN);  // makes write() beyond `ulimit -f` return an error
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

}  // namespace penstock
