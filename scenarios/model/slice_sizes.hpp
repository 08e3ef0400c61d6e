#pragma once
// Cuts a sequence into slices, for schedules that run slice after slice: Seq1F1B in training, and chunked
// prefill. With causal attention a later slice attends to more tokens, so slices of equal length take longer
// and longer, and slices of equal time become shorter and shorter.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

namespace penstock {

/// The rule for the tokens of each slice of a sequence.
struct SliceSizes {
  enum class Rule : std::uint8_t {
    even,        // all slices have equally many tokens, up to rounding
    equal_time,  // all slices take equally long
    fixed,       // each slice has tokens.front() tokens; the last one has the rest
    listed,      // slice i has tokens[i] tokens
  };
  Rule rule = Rule::even;
  std::vector<std::int64_t> tokens{};

  friend bool operator==(const SliceSizes&, const SliceSizes&) = default;
};

/// A slice of a sequence.
struct Slice {
  std::int64_t before = 0;  ///< the tokens of the sequence before the slice
  std::int64_t tokens = 0;  ///< the tokens of the slice

  friend auto operator<=>(const Slice&, const Slice&) = default;
};

/// Returns the time of a slice, in any unit. It must not fall if a slice becomes longer.
using SliceTime = std::function<double(const Slice& slice)>;

/// Returns the number of slices that the rule makes of a sequence. Requires a rule with stated tokens:
/// `fixed` or `listed`.
std::int64_t slice_count(const SliceSizes& sizes, std::int64_t sequence);

/// Cuts a sequence into `count` slices. All but the last have a multiple of `step` tokens, unless the tokens
/// are listed. Errors: fewer steps than slices, listed or fixed tokens that do not add up to the sequence.
tl::expected<std::vector<Slice>, std::string> slices_of(const SliceSizes& sizes, std::int64_t sequence,
                                                        std::int64_t count, std::int64_t step,
                                                        const SliceTime& time);

}  // namespace penstock
