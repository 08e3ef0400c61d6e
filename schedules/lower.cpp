// The list of lowering passes.

#include "schedules/lower.hpp"

#include <string>
#include <tl/expected.hpp>

#include "schedules/program.hpp"

namespace penstock {

tl::expected<Program, std::string> lower(const Program& program) {
  if (is_lowered(program)) return program;
  return place_communication(program);
}

}  // namespace penstock
