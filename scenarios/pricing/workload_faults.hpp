#pragma once
// Finds the reasons why a workload cannot be divided as stated, or cannot run on its devices.

#include <optional>
#include <string>

#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// Returns the message for the first fault, or nothing if there is none. A fault is a size that does not
/// divide, with its scenario key, or a precision. The devices may lack the precision, or be slower in it than
/// in bf16.
std::optional<std::string> fault_of(const Workload& work);

}  // namespace penstock
