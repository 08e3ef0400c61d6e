#pragma once
// A model that is stated by the times of a prompt's chunks. Chunked prefill runs the chunks one after the
// other through the stages of a pipeline, and later chunks attend to more tokens.

#include <cstdint>
#include <string>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/model/slice_sizes.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The costs of a chunk on each stage. Let a chunk have x tokens after L earlier tokens. On each stage, it
/// takes fixed
/// + earlier L + token x + pair (2 L x + x^2) ns.
struct ChunkModel {
  std::int64_t prompt = 1;  ///< the tokens of a prompt
  double fixed_ns = 0;
  double earlier_ns = 0;
  double token_ns = 0;
  double pair_ns = 0;
  Bytes activation = 0;  ///< the bytes of a token that a stage sends to the next one
  Bytes kept = 0;        ///< the bytes of a token's keys and values on a stage
  Bytes weights = 0;     ///< the bytes of a stage's weights

  friend bool operator==(const ChunkModel&, const ChunkModel&) = default;
};

/// Returns the time of a chunk in ns.
double chunk_ns(const ChunkModel& model, const Slice& chunk);

/// Returns the times and bytes of the stages for each chunk of a prompt, which is cut into `count` chunks.
/// Errors: the errors of slices_of(); times or bytes beyond 2^63.
tl::expected<StageFigures, std::string> chunk_figures(const ChunkModel& model, const SliceSizes& sizes,
                                                      std::int64_t count);

}  // namespace penstock
