#pragma once
// What the programs of a space take of this machine, known before the first of them is made.

#include <optional>
#include <span>
#include <string>

#include "schedules/ir/action.hpp"
#include "sim/tuning/configuration.hpp"

namespace penstock {

/// Why the largest program of a space does not fit in so many bytes, or has more actions than an engine
/// numbers, with its stages and microbatches; nothing where it may fit.
std::optional<std::string> space_refusal(std::span<const Configuration> space, Bytes within_reach);
/// The same on this machine.
std::optional<std::string> space_refusal(std::span<const Configuration> space);

}  // namespace penstock
