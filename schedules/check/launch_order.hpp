#pragma once
// Whether a program hangs where a rank's communication kernels start in the order in which they were
// launched, as NCCL has it with NCCL_LAUNCH_ORDER_IMPLICIT=1. Channels that are free of hangs do not say so.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/check/flat_program.hpp"

namespace penstock {

/// Which ranks wait, and for what.
struct LaunchHang {
  std::vector<std::int32_t> ranks;  ///< those that stand still, ascending
  std::string message;  ///< a line each: what it computes next, and the launch that holds the others back
};

/// A rank launches its list ahead: a RECV or collective where it stands, a SEND behind its producer and
/// behind the SENDs before it on its directed pair. A launch starts when all launches before it on its rank
/// have started, the one before it on its channel or group has ended, and what it sends has been made; it
/// ends when both ends, or all members, have started. Requires a program laid out for directed channels that
/// does not hang on them.
std::optional<LaunchHang> find_launch_hang(const FlatProgram& flat);

}  // namespace penstock
