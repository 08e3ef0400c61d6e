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
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

namespace penstock {

namespace {

/// Multiplies each figure by `factor`. Returns false if a product would exceed 64 bits.
bool multiply(std::span<std::int64_t> figures, std::int64_t factor) {
  return std::ranges::none_of(
      figures, [&](std::int64_t& figure) { return __builtin_mul_overflow(figure, factor, &figure); });
}

/// Returns true if a list of this length ends with the last slice of a microbatch. If microbatches are not
/// sliced, the list must have one entry.
bool has_whole_microbatches(std::size_t length, std::size_t slices) {
  return slices == 1 ? length == 1 : length % slices == 0;
}

}  // namespace

StageFigures StageFigures::at_unit(std::size_t unit, std::size_t slices) const {
  StageFigures one = *this;
  for (const auto figure : kStageFigures) one.*figure = (this->*figure).at_unit(unit, slices);
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
    // If a list is longer than M, only its first M entries are used. If the period is M or more, no entry
    // repeats. This limit also prevents an overflow in lcm().
    period = std::lcm(period, std::min(length, most));
    if (period >= most) return most;
  }
  // Microbatches are numbered through all iterations. If the period does not divide M, the next iteration
  // would begin in the middle of a period.
  return most % period == 0 ? period : most;
}

}  // namespace penstock
