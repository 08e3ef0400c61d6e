#pragma once
// Places messages in the simplest, slow way. The time of lower() is compared with it, and tests use it as the
// reference.

#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns what lower() returns for a compute program, by asking every rank in every round whether it can go
/// on. Takes O(ranks) for each action if only one rank can.
tl::expected<Program, std::string> polled_communication(const Program& program);

}  // namespace penstock
