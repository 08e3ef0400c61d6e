#pragma once
// The order in which a rank of a looped pipeline visits its chunks, for the interleaved schedules. Private to
// schedules/.

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// Microbatches pass in groups of g: inside a group all go through chunk 0, then all through chunk 1, ... The
/// last group may be smaller. The k-th backward mirrors the chunk of the k-th forward.
class VirtualOrder {
 public:
  VirtualOrder(const Shape& shape, std::int32_t group);

  std::int32_t group() const { return group_; }
  /// M * v: how many forwards a rank has. More than 32 bits number where M is large, and so may k be.
  std::int64_t size() const { return std::int64_t{microbatches_} * chunks_; }
  Action kth_forward(std::int32_t rank, std::int64_t k) const;
  /// How many visits it takes until the order is the same again, on microbatches that are one group later; it
  /// repeats so up to all_whole_groups().
  std::int64_t period() const { return std::int64_t{group_} * chunks_; }
  std::int64_t all_whole_groups() const { return microbatches_ / group_ * period(); }
  /// `kind`: backward, backward_input or backward_weight.
  Action kth_backward(ActionKind kind, std::int32_t rank, std::int64_t k) const;
  /// How many visits from the k-th on, itself among them, stay in its chunk and group: their microbatches
  /// follow one another.
  std::int32_t rest_of_chunk(std::int64_t k) const { return visit(k).rest; }

 private:
  struct Visit {
    std::int32_t chunk;
    std::int32_t microbatch;
    std::int32_t rest;  // visits up to the end of the chunk, this one among them
  };
  Visit visit(std::int64_t k) const;

  std::int32_t ranks_;
  std::int32_t chunks_;
  std::int32_t group_;
  std::int32_t microbatches_;
};

/// g of PyTorch's rounds: M / R with R = max(1, M / K). Error when M is not a multiple of R, with the nearest
/// M that are; `schedule` is whose rule it is.
tl::expected<std::int32_t, std::string> pytorch_group(std::string_view schedule, const Shape& shape);

}  // namespace penstock
