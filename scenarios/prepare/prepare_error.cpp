// A reader names the file, the line and the key that it stands at; later steps know only the key: the file is
// put in front of what they say.

#include "scenarios/prepare/prepare_error.hpp"

#include <string>

#include <fmt/format.h>

namespace penstock {

PrepareError bad_input(const std::string& file, const std::string& message) {
  const bool has_place = file.empty() || message.starts_with(file) || message.starts_with("--set ");
  return {.message = has_place ? message : fmt::format("{}: {}", file, message)};
}

PrepareError invalid_program(const std::string& file, const std::string& message) {
  PrepareError error = bad_input(file, message);
  error.invalid = true;
  return error;
}

}  // namespace penstock
