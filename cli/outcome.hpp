#pragma once
// What every subcommand returns: an exit code that scripts rely on, or a failure with its message.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace penstock {

/// The process's exit status. Scripts rely on these numbers.
enum class ExitCode : std::uint8_t {
  ok = 0,
  check_failed = 1,    // parsed but invalid, hanging, over a tolerance, out of memory with --fail-on-oom
  bad_input = 2,       // unreadable, unparseable, impossible shape (of a sweep: of all points), wrong flag;
                       // output that cannot be written
  internal_error = 3,  // a fault of penstock itself
  run_failed = 4,      // for want of a process, peer, device or port: killed, busy, silent past the deadline
  not_available = 77,  // a part that is not there
};

/// Why a command did not end well; `message` goes to stderr.
struct Failure {
  ExitCode code = ExitCode::bad_input;
  std::string message{};
};

using Outcome = tl::expected<ExitCode, Failure>;

/// The failure of a wrong file, flag or shape.
inline tl::unexpected<Failure> bad_input(std::string message) {
  return tl::unexpected(Failure{ExitCode::bad_input, std::move(message)});
}

}  // namespace penstock
