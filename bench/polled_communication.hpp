#pragma once
// The slow, obvious way to take turns: what the time of lower() is set against, and its reference in tests.

#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"

namespace penstock {

/// What lower() says of a compute program, by asking every rank in every round whether it can go on. O(ranks)
/// an action where only one rank can.
tl::expected<Program, std::string> polled_communication(const Program& program);

}  // namespace penstock
