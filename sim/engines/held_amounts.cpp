// Changes wait in a list. When the list is long, it is sorted, and all changes before a known time are
// applied:
//
//   time       1  1  2  4  4  7  9      no new change before 5: the first five are applied, in the order of
//   position   0  3  3  1  5  7  8      (time, phase, position, order); others may still come before 7
//
// The list is sorted only after its length has doubled, so a change costs O(log waiting).

#include "sim/engines/held_amounts.hpp"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

void HeldAmounts::settle(Ns before_ns) {
  const auto key = [](const Change& change) {
    return std::tuple(change.time_ns, change.phase, change.position, change.order);
  };
  std::ranges::stable_sort(waiting_, {}, key);
  const auto rest = std::ranges::lower_bound(waiting_, before_ns, {}, &Change::time_ns);
  for (auto change = waiting_.begin(); change != rest; ++change) apply(*change);
  waiting_.erase(waiting_.begin(), rest);
  most_waiting_ = std::max(kFewWaiting, 2 * waiting_.size());
}

void HeldAmounts::note(const Change& change) {
  if (order_ == TellingOrder::in_order) {
    reach_peak(change);
  } else {
    waiting_.push_back(change);
  }
}

void HeldAmounts::reach_peak(const Change& change) {
  peak_total_ = total_;
  at_peak_ = change;
  for (std::size_t kind = 0; kind < kMemoryCategoryCount; ++kind) held_at_peak_[kind] = first_[kind].held;
}

RankMemory HeldAmounts::memory() const {
  RankMemory memory;
  memory.peak_bytes = peak_total_;
  memory.peak_time_ns = at_peak_.time_ns;
  if (peak_total_ > 0 && at_peak_.position >= 0) memory.peak_action = to_text(at_peak_.by);
  memory.at_peak = held_at_peak_;
  for (std::size_t kind = 0; kind < kMemoryCategoryCount; ++kind) memory.peaks[kind] = first_[kind].peak;
  return memory;
}

}  // namespace penstock
