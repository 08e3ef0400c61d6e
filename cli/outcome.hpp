#pragma once
// The result of a subcommand: an exit code, or an error with its message.

#include <cstdint>
#include <tl/expected.hpp>

#include "schedules/check/user_error.hpp"  // IWYU pragma: export

namespace penstock {

/// The process's exit status. Scripts rely on these numbers.
enum class ExitCode : std::uint8_t {
  ok = 0,
  check_failed = 1,  // parsed but invalid, hanging, over a tolerance, or out of memory with --fail-on-oom
  // Unreadable, unparseable, an impossible shape (of a sweep: of all points), a wrong flag, or output that
  // cannot be written.
  bad_input = 2,
  internal_error = 3,  // a fault of penstock itself
  run_failed = 4,  // a process, peer, device or port is missing: killed, busy, or silent after the deadline
  not_available = 77,  // a part is not installed or not present
};

/// Returns the exit code of a command that fails with an error of this kind.
constexpr ExitCode exit_code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::bad_input:
      return ExitCode::bad_input;
    case ErrorKind::check_failed:
      return ExitCode::check_failed;
    case ErrorKind::run_failed:
      return ExitCode::run_failed;
    case ErrorKind::not_available:
      return ExitCode::not_available;
  }
  return ExitCode::internal_error;
}

/// The message of the error goes to stderr.
using Outcome = tl::expected<ExitCode, UserError>;

}  // namespace penstock
