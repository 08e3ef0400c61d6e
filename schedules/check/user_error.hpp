#pragma once
// The one error for what a user caused: a wrong file, flag, shape or program, or a run that failed. Steps
// that can fail in only one way return a std::string instead.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <tl/expected.hpp>

#include "schedules/check/channel_check.hpp"

namespace penstock {

/// The kind of an error, which decides the exit code of a command (cli/outcome.hpp).
enum class ErrorKind : std::uint8_t {
  bad_input,      // unreadable, unparseable, an impossible shape, too few devices, too little memory
  check_failed,   // parsed, but not a legal program, hanging, or over a limit
  run_failed,     // a worker, a device or a peer failed, or the deadline passed
  not_available,  // this machine lacks a part: no GPU, no driver
};

struct UserError {
  ErrorKind kind = ErrorKind::bad_input;
  std::string message{};
  /// The cycle of a program that hangs.
  std::optional<Hang> hang{};
};

/// Returns an error to return from a function.
inline tl::unexpected<UserError> user_error(ErrorKind kind, std::string message) {
  return tl::unexpected(UserError{.kind = kind, .message = std::move(message)});
}
/// Returns the error for a wrong file, flag or shape.
inline tl::unexpected<UserError> bad_input(std::string message) {
  return user_error(ErrorKind::bad_input, std::move(message));
}

}  // namespace penstock
