#pragma once
// The eight steps of a DualPipe rank, which DualPipe and DualPipeV share. Private to schedules/.

#include <array>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// One of the two streams of microbatches that pass through a rank.
struct DualPipeStream {
  std::int32_t stage = 0;             ///< the rank's stage in this stream
  std::int32_t first_microbatch = 0;  ///< the stream's microbatches are consecutive
};

/// A rank of DualPipe. `streams[0]` enters the pipeline at the end that is nearer to this rank.
struct DualPipeRank {
  std::array<DualPipeStream, 2> streams;
  std::int32_t microbatches = 0;  ///< of each stream, at least 2 * depth
  std::int32_t depth = 0;         ///< ranks from the end where a stream enters to the middle
  std::int32_t position = 0;      ///< of this rank among them, 0 at the end
};

/// The compute actions in order. Requires microbatches >= 2 * depth.
std::vector<Action> dual_pipe_steps(const DualPipeRank& rank);

}  // namespace penstock
