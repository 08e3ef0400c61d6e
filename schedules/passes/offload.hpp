#pragma once
// Lets ranks offload a share of their activations to the memory of their hosts (schedule.offload).

#include <span>

#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns the program with an OFFLOAD and a RELOAD for some activations of each rank (offload.cpp).
/// `shares[r]` is the share of rank r's activations to offload, from 0 to 1; a single entry applies to all
/// ranks. Requires a program without messages. A rank that recomputes must have the share 0.
Program offload_activations(Program program, std::span<const double> shares);

}  // namespace penstock
