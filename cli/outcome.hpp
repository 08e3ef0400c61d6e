#pragma once
// The result of a subcommand: an exit code, or a failure with its message.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

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

/// The failure of a command. `message` goes to stderr.
struct Failure {
  ExitCode code = ExitCode::bad_input;
  std::string message{};
};

using Outcome = tl::expected<ExitCode, Failure>;

/// Returns the failure for a wrong file, flag or shape.
inline tl::unexpected<Failure> bad_input(std::string message) {
  return tl::unexpected(Failure{ExitCode::bad_input, std::move(message)});
}

}  // namespace penstock
