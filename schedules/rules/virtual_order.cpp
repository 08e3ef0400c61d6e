
#include "schedules/rules/virtual_order.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

VirtualOrder::VirtualOrder(const Shape& shape, std::int32_t group)
    : ranks_(shape.stages), chunks_(shape.virtual_stages), group_(group), microbatches_(shape.microbatches) {}

VirtualOrder::Visit VirtualOrder::visit(std::int64_t k) const {
  // All earlier groups are complete, so the first microbatch of a group gives the number of visits in earlier
  // groups.
  const auto first = static_cast<std::int32_t>(k / period() * group_);
  const std::int32_t size = std::min(group_, microbatches_ - first);
  const std::int64_t within = k - std::int64_t{first} * chunks_;
  const auto past = static_cast<std::int32_t>(within % size);
  return {.chunk = static_cast<std::int32_t>(within / size), .microbatch = first + past, .rest = size - past};
}

Action VirtualOrder::kth_forward(std::int32_t rank, std::int64_t k) const {
  const Visit here = visit(k);
  return forward(here.chunk * ranks_ + rank, here.microbatch);
}

Action VirtualOrder::kth_backward(ActionKind kind, std::int32_t rank, std::int64_t k) const {
  const Visit here = visit(k);
  return compute(kind, (chunks_ - 1 - here.chunk) * ranks_ + rank, here.microbatch);
}

namespace {

/// Returns PyTorch's number of rounds. With M < K there is one round.
std::int32_t rounds_of(std::int32_t stages, std::int32_t microbatches) {
  return std::max(1, microbatches / stages);
}

bool takes(std::int32_t stages, std::int32_t microbatches) {
  return microbatches % rounds_of(stages, microbatches) == 0;
}

}  // namespace

tl::expected<std::int32_t, std::string> pytorch_group(std::string_view schedule, const Shape& shape) {
  const std::int32_t rounds = rounds_of(shape.stages, shape.microbatches);
  if (takes(shape.stages, shape.microbatches)) return shape.microbatches / rounds;
  std::int32_t below = shape.microbatches;
  while (!takes(shape.stages, below)) --below;
  std::int32_t above = shape.microbatches;
  while (!takes(shape.stages, above)) ++above;
  return tl::unexpected(fmt::format(
      "microbatches: {} runs {} microbatches on {} ranks in {} rounds, and {} is not a multiple of {}; the "
      "nearest that work are {} and {}",
      schedule, shape.microbatches, shape.stages, rounds, shape.microbatches, rounds, below, above));
}

}  // namespace penstock
