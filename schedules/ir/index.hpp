#pragma once
// Converts signed numbers to vector indices. Ranks, stages, microbatches and positions are signed, so that
// they can be subtracted and -1 can mean "none". Vector indices are unsigned.

#include <cstddef>
#include <cstdint>

namespace penstock {

/// Returns `number` as an index of a vector. Requires number >= 0.
constexpr std::size_t index(std::int64_t number) noexcept { return static_cast<std::size_t>(number); }

}  // namespace penstock
