// A reader names the file, the line and the key that it stands at; later steps know only the key: the file is
// put in front of what they say.

#include "scenarios/prepare/prepare_error.hpp"

#include <string>

#include <fmt/format.h>

namespace penstock {

PrepareError in_file(const std::string& file, PrepareError error) {
  const bool has_place =
      file.empty() || error.message.starts_with(file) || error.message.starts_with("--set ");
  if (!has_place) error.message = fmt::format("{}: {}", file, error.message);
  return error;
}

}  // namespace penstock
