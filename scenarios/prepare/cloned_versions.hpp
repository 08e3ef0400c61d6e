#pragma once
// What clones of weights take where a runtime makes them when it starts.

#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Sets the bytes of each stage's clones, from its weights and the versions that the program keeps of them.
/// Error: more than 2^63 bytes.
tl::expected<void, std::string> price_cloned_versions(CostTable& costs, const Program& program);

}  // namespace penstock
