#pragma once
// Ranks, stages, microbatches and positions are signed, so that they can be subtracted and "none" is -1; the
// entries of a vector are counted unsigned. This is the step from the one to the other.

#include <cstddef>
#include <cstdint>

namespace penstock {

/// The place of `number` in a vector. Requires number >= 0.
constexpr std::size_t index(std::int64_t number) noexcept { return static_cast<std::size_t>(number); }

}  // namespace penstock
