#pragma once
// Exchanges of sharded stages in every microbatch. Its neighbour fsdp.hpp has PyTorch's placement, which
// keeps what it has gathered for the next microbatch.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns the compute program with a REDUCE_GRAD behind each backward pass of a shared stage, and under
/// sharding 3 an UNSHARD before and a RESHARD behind each of its forward and backward passes. The weights of
/// the next passes, at most `kGatheredAhead` with the one that runs, are gathered while that one computes.
/// REDUCE_GRADs of shared stages that the program has are left out. Requires sharding 2 or 3 and no UNSHARD
/// or RESHARD. Error: ranks of a stage that do not run equally many backward passes.
tl::expected<Program, std::string> exchange_each_microbatch(const Program& program, std::int32_t sharding);

/// Passes whose weights a rank holds gathered at a time.
inline constexpr std::size_t kGatheredAhead = 3;

}  // namespace penstock
