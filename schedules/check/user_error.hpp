#pragma once
// The error type for faults in the user's input, such as a wrong file, flag, shape or program, and for
// runs that failed. Functions with only one kind of error return a std::string instead.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <tl/expected.hpp>

#include "schedules/check/channel_check.hpp"

namespace penstock {

/// The kind of an error, which decides the exit code of a command (cli/outcome.hpp).
enum class ErrorKind : std::uint8_t {
  bad_input,  // an unreadable file, a parse error, an impossible shape, too few devices or too little memory
  check_failed,   // the program can be read, but is not legal, or hangs, or exceeds a limit
  run_failed,     // a worker, a device or a peer failed, or the deadline passed
  not_available,  // this machine lacks something that the run needs, such as a GPU or its driver
};

struct UserError {
  ErrorKind kind = ErrorKind::bad_input;
  std::string message{};
  /// The hang with its cycle of waits. Absent if the program does not hang.
  std::optional<Hang> hang{};
};

/// Returns a UserError wrapped as tl::unexpected, for functions that return tl::expected.
inline tl::unexpected<UserError> user_error(ErrorKind kind, std::string message) {
  return tl::unexpected(UserError{.kind = kind, .message = std::move(message)});
}
/// Returns the error for a wrong file, flag or shape, wrapped as tl::unexpected.
inline tl::unexpected<UserError> bad_input(std::string message) {
  return user_error(ErrorKind::bad_input, std::move(message));
}

}  // namespace penstock
