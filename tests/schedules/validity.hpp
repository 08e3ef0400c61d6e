#pragma once
// Whether programs of tests are valid, in one word.

#include <string>

#include "schedules/check/validate.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// What validate() says; empty where the program is valid.
inline std::string error_of(const Program& program) {
  const auto valid = validate(program);
  return valid ? "" : valid.error();
}

}  // namespace penstock
