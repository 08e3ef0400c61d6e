#pragma once
// The result of a subcommand: an exit code, or an error with a message.

#include <cstdint>
#include <tl/expected.hpp>

#include "schedules/check/user_error.hpp"  // IWYU pragma: export

namespace penstock {

/// The exit code of the process. Scripts depend on these numbers, so they must not change.
enum class ExitCode : std::uint8_t {
  ok = 0,
  check_failed = 1,  // invalid program, hang, exceeded tolerance, or too little memory with --fail-on-oom
  // A file that cannot be read or parsed, an impossible shape, a wrong flag, or output that cannot be
  // written. A sweep returns it only if all points are impossible.
  bad_input = 2,
  internal_error = 3,  // a fault of Penstock itself
  run_failed = 4,      // a process, peer, device or port was killed, is busy, or did not answer in time
  undecided = 5,       // measurements are too noisy to tell whether a prediction holds
  not_available = 77,  // this machine lacks something that the command needs, such as a GPU or LibTorch
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

/// The result of a subcommand: its exit code, or its error, which is printed on stderr.
using Outcome = tl::expected<ExitCode, UserError>;

}  // namespace penstock
