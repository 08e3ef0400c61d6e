#pragma once
// The simplest, slow algorithm that places messages. The speed of lower() is compared with it, and tests use
// it as a reference.

#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns the result of lower() for a compute program. In every round, it checks for every rank whether the
/// rank can continue. If only one rank can, this takes O(ranks) for each action.
tl::expected<Program, std::string> polled_communication(const Program& program);

}  // namespace penstock
