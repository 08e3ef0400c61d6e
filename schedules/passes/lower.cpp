// The list of lowering passes, from a compute program to one that can run. A program that has its transfers,
// or needs none, is left as it is, so that lowering twice is lowering once.

#include "schedules/passes/lower.hpp"

#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"

namespace penstock {

tl::expected<Program, std::string> lower(const Program& program) {
  if (is_lowered(program)) return program;
  return place_communication(program);
}

}  // namespace penstock
