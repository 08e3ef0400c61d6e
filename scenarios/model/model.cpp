// Returns the times and bytes of one microbatch, or of one slice, if a scenario states them for each
// microbatch or slice:
//
//   forward: [1 ms, [1 ms, 3 ms]]   at microbatch 1   forward: [1 ms, 3 ms]
//
// Code that reads the figures of one microbatch then needs no special case. Figures of slices become figures
// of microbatches that consist of equal slices. For example, a microbatch of two slices has {slices: [1 ms, 3
// ms]}. It becomes 2 ms at slice 0 and 6 ms at slice 1. Tested by slices_test.cpp.
#include "scenarios/model/model.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

/// Multiplies each number in `figures` by `factor`. Returns false if a product would exceed 64 bits.
bool multiply(std::span<std::int64_t> figures, std::int64_t factor) {
  return std::ranges::none_of(
      figures, [&](std::int64_t& figure) { return __builtin_mul_overflow(figure, factor, &figure); });
}

/// Returns true if a list of `length` values covers whole microbatches of `slices` slices each. If
/// microbatches are not sliced, the list must have one entry.
bool has_whole_microbatches(std::size_t length, std::size_t slices) {
  return slices == 1 ? length == 1 : length % slices == 0;
}

}  // namespace

StageFigures StageFigures::at_unit(std::size_t unit, std::size_t slices) const {
  // The lists of all units may be long, so they are not copied.
  StageFigures one;
  for (const auto figure : kStageFigures) one.*figure = (this->*figure).at_unit(unit, slices);
  one.edges = edges;
  return one;
}

bool StageFigures::slices_differ() const {
  return std::ranges::any_of(kStageFigures, [&](const auto figure) { return (this->*figure).by_slice; });
}

tl::expected<StageFigures, std::string> StageFigures::as_of_microbatches(std::int32_t slices) const {
  StageFigures whole = *this;
  for (const auto member : kStageFigures) {
    auto& figure = whole.*member;
    if (!figure.by_slice) continue;
    bool fits = multiply(figure.values, slices);
    for (auto& of_stage : figure.by_microbatch) {
      if (!has_whole_microbatches(of_stage.size(), static_cast<std::size_t>(slices))) {
        return tl::unexpected(fmt::format(
            "{}: {} slices are listed, and a microbatch has {} (schedule.slices); list one value for each",
            figure.place, of_stage.size(), slices));
      }
      fits = multiply(of_stage, slices) && fits;
    }
    if (!fits)
      return tl::unexpected(fmt::format("{}: {} times a figure is beyond 2^63", figure.place, slices));
  }
  return whole;
}

std::vector<std::pair<std::size_t, std::string>> StageFigures::microbatch_lists(std::int32_t slices) const {
  std::vector<std::pair<std::size_t, std::string>> lists;
  for (const auto member : kStageFigures) {
    const auto& figure = this->*member;
    for (const auto& of_stage : figure.by_microbatch) {
      const std::size_t length = of_stage.size() / (figure.by_slice ? static_cast<std::size_t>(slices) : 1);
      const bool holds_for_all = figure.by_slice && length <= 1;
      if (!of_stage.empty() && !holds_for_all) lists.emplace_back(length, figure.place);
    }
  }
  return lists;
}

std::size_t StageFigures::microbatch_period(std::int32_t microbatches, std::int32_t slices) const {
  const auto lists = microbatch_lists(slices);
  if (lists.empty()) return 0;
  const auto most = static_cast<std::size_t>(microbatches);
  std::size_t period = 1;
  for (const auto& [length, place] : lists) {
    // If a list is longer than M, only its first M entries are used. If the period is at least M, no entry
    // repeats. This limit also prevents an overflow in lcm().
    period = std::lcm(period, std::min(length, most));
    if (period >= most) return most;
  }
  // Microbatches are numbered through all iterations. If the period does not divide M, the next iteration
  // would begin in the middle of a period.
  return most % period == 0 ? period : most;
}

// Computes the time of each chunk of a prompt from four constants. A chunk of x tokens after L earlier tokens
// takes
//
//   t(L, x) = c + g L + b x + a (2 L x + x^2)
//
// The chunk itself takes c. Reading the keys and values of an earlier token takes g. The matrix products of a
// token take b. Each pair of tokens in causal attention takes a, and the chunk has (L + x)^2 - L^2 = 2 L x +
// x^2 pairs. The sum of the last two terms over all chunks does not depend on the sizes of the chunks.
// Sources: vLLM pull requests 33914 and 41682, SGLang pull request 11857. Tested by slices_test.cpp.

namespace {

constexpr double kMostOfPrompt = 4.6e18;  // 2^62

/// Returns a number of stages (PerStage) that has one value for each chunk of a prompt. These values hold for
/// all stages.
PerStage<std::int64_t> by_chunk(std::vector<std::int64_t> values) {
  PerStage<std::int64_t> figure{.values = {}, .place = "model.chunks", .by_slice = true};
  Wide sum = 0;
  for (const std::int64_t value : values) sum += value;
  figure.values.push_back(static_cast<std::int64_t>(sum / static_cast<Wide>(values.size())));
  figure.by_microbatch.push_back(std::move(values));
  return figure;
}

}  // namespace

double chunk_ns(const ChunkModel& model, const Slice& chunk) {
  const auto before = static_cast<double>(chunk.before);
  const auto tokens = static_cast<double>(chunk.tokens);
  return model.fixed_ns + model.earlier_ns * before + model.token_ns * tokens +
         model.pair_ns * (2 * before * tokens + tokens * tokens);
}

tl::expected<StageFigures, std::string> chunk_figures(const ChunkModel& model, const SliceSizes& sizes,
                                                      std::int64_t count) {
  auto chunks =
      slices_of(sizes, model.prompt, count, 1, [&](const Slice& chunk) { return chunk_ns(model, chunk); });
  if (!chunks) return tl::unexpected(chunks.error());
  const auto prompt = static_cast<double>(model.prompt);
  const double longest = chunk_ns(model, {.before = model.prompt, .tokens = model.prompt});
  const double largest = prompt * static_cast<double>(std::max(model.activation, model.kept));
  if (std::max(longest, largest) * static_cast<double>(count) > kMostOfPrompt)
    return tl::unexpected(std::string("the times or bytes of a prompt are beyond 2^62 ns or bytes"));
  std::vector<std::int64_t> times;
  std::vector<std::int64_t> activations;
  std::vector<std::int64_t> kept;
  for (const Slice& chunk : *chunks) {
    times.push_back(std::llround(chunk_ns(model, chunk)));
    activations.push_back(model.activation * chunk.tokens);
    kept.push_back(model.kept * chunk.tokens);
  }
  StageFigures figures;
  figures.forward = by_chunk(std::move(times));
  figures.activation = by_chunk(std::move(activations));
  figures.kept = by_chunk(std::move(kept));
  figures.weights = {.values = {model.weights}, .place = "model.chunks"};
  return figures;
}

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
    std::int64_t fits = 1;  // number of steps that fit; a slice has at least one
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
