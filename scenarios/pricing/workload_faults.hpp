#pragma once
// What of a workload cannot be shared out as it says, or computed on its devices.

#include <optional>
#include <string>

#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// The first thing that does not divide, with the key of a scenario that says it, or a precision that the
/// devices do not have or are slower in than in bf16; nothing where all is well.
std::optional<std::string> fault_of(const Workload& work);

}  // namespace penstock
