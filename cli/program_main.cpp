// The last resort. Errors of users are values and have been printed long before. An exception that arrives
// here is a fault of the program (exit 3), or the std::bad_alloc of a shape that no memory holds (exit 2,
// address_space.hpp).

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

/// Memory that one prediction gives back is there for the next one: without this, glibc returns it to the
/// kernel and asks again, page by page.
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kMebibyte = 1 << 20;
  // Blocks below 32 MiB come from the heap, of which up to 1 GiB is kept free and which grows by 4 MiB.
  mallopt(M_MMAP_THRESHOLD, 32 * kMebibyte);
  mallopt(M_TRIM_THRESHOLD, 1024 * kMebibyte);
  mallopt(M_TOP_PAD, 4 * kMebibyte);
#endif
}

/// A stream that the caller has closed (`>&-`) stays without effect: its number would else go to the next
/// file that is opened, such as a sweep's points, and what is printed into that file. Opened the other way
/// round, so that who writes there is still told that it cannot be.
void keep_numbers_of_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // The lowest free number is this one, as those below it are taken.
    static_cast<void>(open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

}  // namespace

int program_main(int argc, const char* const* argv, AddressSpace addresses, Extensions extensions) {
  if (addresses == AddressSpace::bounded_by_memory) bound_address_space();
  keep_freed_memory();
  keep_numbers_of_closed_streams();
  // NOLINTNEXTLINE(misc-include-cleaner): <csignal> has it
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of write() then
  // NOLINTNEXTLINE(misc-include-cleaner): <csignal> has it
  std::signal(SIGXFSZ, SIG_IGN);  // and so is a file beyond `ulimit -f`
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
