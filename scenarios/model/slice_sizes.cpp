// Cuts a sequence into slices of equal length, of stated lengths, or of equal times. A slice of x tokens
// after L earlier tokens takes t(L, x) in its forward pass. If all slices take equally long, the longest
// slice is as short as possible:
//
//   tokens  0      L1     L2    L3   S        a limit T gives the longest slices with t(L, x) <= T, one
//           |------|------|-----|----|        after the other; the least T whose slices reach S is found
//            t = T  t = T  t = T t <= T       by halving an interval
//
// Sun et al., "Seq1F1B", arXiv 2406.03488, section 3.4, cut sequences in this way by operations. Tested by
// slices_test.cpp.

#include "scenarios/model/slice_sizes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

namespace penstock {

namespace {

std::vector<Slice> behind_each_other(const std::vector<std::int64_t>& tokens) {
  std::vector<Slice> slices;
  slices.reserve(tokens.size());
  std::int64_t before = 0;
  for (const std::int64_t count : tokens) {
    slices.push_back({.before = before, .tokens = count});
    before += count;
  }
  return slices;
}

/// Returns `count` slices that are multiples of `step` tokens and differ by at most one step. The last slice
/// also gets the remaining tokens if `sequence` is not a multiple of `step`.
std::vector<Slice> even_slices(std::int64_t sequence, std::int64_t count, std::int64_t step) {
  const std::int64_t steps = sequence / step;
  std::vector<std::int64_t> tokens;
  tokens.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    tokens.push_back(step * (steps * (i + 1) / count - steps * i / count));
  tokens.back() += sequence % step;
  return behind_each_other(tokens);
}

/// Returns slices that are as long as the time `limit` for each slice allows. Each slice leaves at least one
/// step for each later slice. The last slice has all tokens that remain, so it may take longer than the
/// limit.
std::vector<Slice> slices_within(double limit, std::int64_t sequence, std::int64_t count, std::int64_t step,
                                 const SliceTime& time) {
  std::vector<std::int64_t> tokens;
  std::int64_t before = 0;
  for (std::int64_t left = count - 1; left > 0; --left) {
    std::int64_t fits = 1;  // in steps; a slice has at least one
    std::int64_t most = (sequence - before) / step - left;
    while (fits < most) {
      const std::int64_t tried = most - (most - fits) / 2;
      if (time({.before = before, .tokens = tried * step}) <= limit) {
        fits = tried;
      } else {
        most = tried - 1;
      }
    }
    tokens.push_back(fits * step);
    before += fits * step;
  }
  tokens.push_back(sequence - before);
  return behind_each_other(tokens);
}

std::vector<Slice> equal_time_slices(std::int64_t sequence, std::int64_t count, std::int64_t step,
                                     const SliceTime& time) {
  constexpr int kHalvings = 40;
  const auto longest = [&](const std::vector<Slice>& slices) {
    return std::transform_reduce(
        slices.begin(), slices.end(), 0.0, [](double a, double b) { return std::max(a, b); }, time);
  };
  double low = 0;
  double high = time({.before = 0, .tokens = sequence});
  std::vector<Slice> best = even_slices(sequence, count, step);
  double best_time = longest(best);
  for (int i = 0; i < kHalvings; ++i) {
    const double limit = low + (high - low) / 2;
    std::vector<Slice> slices = slices_within(limit, sequence, count, step, time);
    const double reached = longest(slices);
    (reached <= limit ? high : low) = limit;
    if (reached >= best_time) continue;
    best = std::move(slices);
    best_time = reached;
  }
  return best;
}

tl::unexpected<std::string> wrong_sum(const SliceSizes& sizes, std::int64_t sequence, std::int64_t count) {
  if (sizes.rule == SliceSizes::Rule::fixed) {
    return tl::unexpected(
        fmt::format("slice_tokens: slices of {} tokens cut a sequence of {} into {}, got {} slices; leave "
                    "the number of slices out",
                    sizes.tokens.front(), sequence, slice_count(sizes, sequence), count));
  }
  return tl::unexpected(fmt::format(
      "slice_tokens: expected {} slices with {} tokens together, got {} with {}", count, sequence,
      sizes.tokens.size(), std::accumulate(sizes.tokens.begin(), sizes.tokens.end(), std::int64_t{0})));
}

}  // namespace

std::int64_t slice_count(const SliceSizes& sizes, std::int64_t sequence) {
  if (sizes.rule == SliceSizes::Rule::listed) return std::ssize(sizes.tokens);
  return (sequence + sizes.tokens.front() - 1) / sizes.tokens.front();
}

tl::expected<std::vector<Slice>, std::string> slices_of(const SliceSizes& sizes, std::int64_t sequence,
                                                        std::int64_t count, std::int64_t step,
                                                        const SliceTime& time) {
  const bool is_stated = sizes.rule == SliceSizes::Rule::fixed || sizes.rule == SliceSizes::Rule::listed;
  if (is_stated) {
    std::vector<std::int64_t> tokens = sizes.tokens;
    if (slice_count(sizes, sequence) != count) return wrong_sum(sizes, sequence, count);
    if (sizes.rule == SliceSizes::Rule::fixed) {
      tokens.assign(static_cast<std::size_t>(count), sizes.tokens.front());
      tokens.back() = sequence - sizes.tokens.front() * (count - 1);
    }
    if (std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0}) != sequence)
      return wrong_sum(sizes, sequence, count);
    return behind_each_other(tokens);
  }
  if (sequence / step < count) {
    return tl::unexpected(fmt::format(
        "slices: a sequence of {} tokens cannot be cut into {} slices of at least {} tokens; take fewer",
        sequence, count, step));
  }
  return sizes.rule == SliceSizes::Rule::even ? even_slices(sequence, count, step)
                                              : equal_time_slices(sequence, count, step, time);
}

}  // namespace penstock
