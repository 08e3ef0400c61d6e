#pragma once
// Estimates the memory of this machine that the programs of a space need, before the first of them is
// generated.

#include <optional>
#include <span>
#include <string>

#include "schedules/ir/action.hpp"
#include "sim/tuning/configuration.hpp"

namespace penstock {

/// Returns an error message if the largest program of the space cannot be stored or run. Either it does not
/// fit into `within_reach` bytes, or it has more actions than an engine can number. The message names its
/// stages and microbatches. Returns nothing if it may fit.
std::optional<std::string> space_refusal(std::span<const Configuration> space, Bytes within_reach);
/// Like the other space_refusal(), with the memory that is free on this machine.
std::optional<std::string> space_refusal(std::span<const Configuration> space);

}  // namespace penstock
