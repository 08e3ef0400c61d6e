// Selects the figures of one microbatch where figures differ from microbatch to microbatch:
//
//   forward: [1 ms, [1 ms, 3 ms]]   at microbatch 1   forward: [1 ms, 3 ms]
//
// Code that reads the figures of one microbatch then needs no special case.

#include "scenarios/model/model.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace penstock {

StageFigures StageFigures::at_microbatch(std::size_t microbatch) const {
  StageFigures one = *this;
  for (const auto figure : kStageFigures) one.*figure = (this->*figure).at_microbatch(microbatch);
  return one;
}

std::vector<std::pair<std::size_t, std::string>> StageFigures::microbatch_lists() const {
  std::vector<std::pair<std::size_t, std::string>> lists;
  for (const auto figure : kStageFigures) {
    for (const auto& of_stage : (this->*figure).by_microbatch) {
      if (!of_stage.empty()) lists.emplace_back(of_stage.size(), (this->*figure).place);
    }
  }
  return lists;
}

std::size_t StageFigures::microbatch_period(std::int32_t microbatches) const {
  const auto lists = microbatch_lists();
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
