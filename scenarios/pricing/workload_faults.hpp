#pragma once
// The reasons why a workload cannot be divided as stated, or not be computed on its devices.

#include <optional>
#include <string>

#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// Returns the first fault, or nothing. A fault is a size that does not divide, with its scenario key, or a
/// precision that the devices do not have or in which they are slower than in bf16.
std::optional<std::string> fault_of(const Workload& work);

}  // namespace penstock
