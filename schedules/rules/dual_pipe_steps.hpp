#pragma once
// Makes the list of a rank in DualPipe and DualPipeV. Both schedules share its eight steps. Only schedules/
// includes this header.

#include <array>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// One of the two streams of microbatches that pass through a rank.
struct DualPipeStream {
  /// The rank's stage in this stream.
  std::int32_t stage = 0;
  /// The first microbatch of the stream. Its microbatches are consecutive.
  std::int32_t first_microbatch = 0;
};

/// A rank of DualPipe. `streams[0]` is the stream that enters the pipeline at the end nearer to this rank.
struct DualPipeRank {
  std::array<DualPipeStream, 2> streams;
  /// The number of microbatches in each stream, at least 2 * depth.
  std::int32_t microbatches = 0;
  /// The number of ranks from an end of the pipeline to its middle.
  std::int32_t depth = 0;
  /// The number of ranks between this rank and the nearer end of the pipeline.
  std::int32_t position = 0;
};

/// Returns the compute actions of the rank, in order. Requires microbatches >= 2 * depth.
std::vector<Action> dual_pipe_steps(const DualPipeRank& rank);

}  // namespace penstock
