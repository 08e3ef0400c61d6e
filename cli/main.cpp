// The `penstock` command. Everything but the last resort for faults is in command_line.hpp.

#include <csignal>
#include <exception>

#include <fmt/format.h>

#include "cli/command_line.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"

int main(int argc, char** argv) {
  // NOLINTNEXTLINE(misc-include-cleaner): <csignal> has it
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of write() then
  try {
    return static_cast<int>(penstock::run_command_line(argc, argv));
  } catch (const std::exception& fault) {
    penstock::write_stderr(
        fmt::format("penstock: internal error: {}\nThis is a fault of penstock: please report it with the "
                    "command and its files.",
                    fault.what()));
    return static_cast<int>(penstock::ExitCode::internal_error);
  }
}
