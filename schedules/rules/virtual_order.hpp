#pragma once
// The order in which a rank of an interleaved schedule runs its v chunks. A group of g microbatches goes
// through all chunks before the next group begins (Megatron-LM, SC'21, section 2.2, with g = K).
//
//   K = 2, v = 2, g = 3, M = 5: microbatch 0 1 2 0 1 2 3 4 3 4
//                               chunk      0 0 0 1 1 1 0 0 1 1
//
// The backward runs the chunks from the last to the first. The order of microbatches is the same. Only
// schedules/ includes this header.

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// The order of a rank's visits; a visit is one forward or backward of a microbatch on a chunk. All
/// microbatches of a group go through chunk 0, then all go through chunk 1, and so on. The last group may be
/// smaller. The k-th backward uses the chunk that mirrors the chunk of the k-th forward.
class VirtualOrder {
 public:
  VirtualOrder(const Shape& shape, std::int32_t group);

  std::int32_t group() const { return group_; }
  /// Returns M * v, the number of forwards of a rank. This number and k may exceed 32 bits if M is large.
  std::int64_t size() const { return std::int64_t{microbatches_} * chunks_; }
  /// Returns the k-th forward of a rank.
  Action kth_forward(std::int32_t rank, std::int64_t k) const;
  /// Returns the number of visits after which the order repeats. The microbatches are then one group later.
  /// The order repeats until all_whole_groups().
  std::int64_t period() const { return std::int64_t{group_} * chunks_; }
  /// Returns the number of visits that belong to complete groups.
  std::int64_t all_whole_groups() const { return microbatches_ / group_ * period(); }
  /// Returns the k-th backward of a rank. `kind` is backward, backward_input or backward_weight.
  Action kth_backward(ActionKind kind, std::int32_t rank, std::int64_t k) const;
  /// Returns the number of visits, from the k-th on, that stay in the same chunk and group. The k-th visit
  /// counts. Their microbatches are consecutive.
  std::int32_t rest_of_chunk(std::int64_t k) const { return visit(k).rest; }

 private:
  struct Visit {
    std::int32_t chunk;
    std::int32_t microbatch;
    std::int32_t rest;  // visits to the end of the chunk, including this one
  };
  Visit visit(std::int64_t k) const;

  std::int32_t ranks_;
  std::int32_t chunks_;
  std::int32_t group_;
  std::int32_t microbatches_;
};

/// Returns g, the group size of PyTorch's rounds: M / R with R = max(1, M / K). Fails if M is not a multiple
/// of R. The message names `schedule` and the nearest M that are possible.
tl::expected<std::int32_t, std::string> pytorch_group(std::string_view schedule, const Shape& shape);

}  // namespace penstock
