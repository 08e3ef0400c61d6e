#pragma once
// The order in which a rank of an interleaved schedule visits its v chunks: each group of g microbatches goes
// through all chunks before the next group begins (Megatron-LM, SC'21, section 2.2, with g = K).
//
//   K = 2, v = 2, g = 3, M = 5: microbatch 0 1 2 0 1 2 3 4 3 4
//                               chunk      0 0 0 1 1 1 0 0 1 1
//
// The backward visits chunks from the last to the first in the same order of microbatches. Only schedules/
// includes this header.

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// The order of a rank's visits. All microbatches of a group go through chunk 0, then all through chunk 1,
/// and so on. The last group may be smaller. The k-th backward mirrors the chunk of the k-th forward.
class VirtualOrder {
 public:
  VirtualOrder(const Shape& shape, std::int32_t group);

  std::int32_t group() const { return group_; }
  /// Returns M * v, the number of a rank's forwards. It may exceed 32 bits if M is large, and so may k.
  std::int64_t size() const { return std::int64_t{microbatches_} * chunks_; }
  /// Returns the k-th forward of a rank.
  Action kth_forward(std::int32_t rank, std::int64_t k) const;
  /// Returns after how many visits the order repeats with microbatches that are one group later. It repeats
  /// up to all_whole_groups().
  std::int64_t period() const { return std::int64_t{group_} * chunks_; }
  /// Returns the number of visits in whole groups.
  std::int64_t all_whole_groups() const { return microbatches_ / group_ * period(); }
  /// Returns the k-th backward of a rank. `kind` is backward, backward_input or backward_weight.
  Action kth_backward(ActionKind kind, std::int32_t rank, std::int64_t k) const;
  /// Returns how many visits from the k-th on, including it, stay in its chunk and group. Their microbatches
  /// are consecutive.
  std::int32_t rest_of_chunk(std::int64_t k) const { return visit(k).rest; }

 private:
  struct Visit {
    std::int32_t chunk;
    std::int32_t microbatch;
    std::int32_t rest;  // visits up to the end of the chunk, including this one
  };
  Visit visit(std::int64_t k) const;

  std::int32_t ranks_;
  std::int32_t chunks_;
  std::int32_t group_;
  std::int32_t microbatches_;
};

/// Returns g of PyTorch's rounds: M / R with R = max(1, M / K). Error: M is not a multiple of R; the message
/// names the nearest M that are, and `schedule`.
tl::expected<std::int32_t, std::string> pytorch_group(std::string_view schedule, const Shape& shape);

}  // namespace penstock
