// Decides whether a configuration may still change the answer of a search. It compares a lower bound of
// the configuration's figures with exact figures of others. The bound never exceeds the true value, so no
// configuration is excluded that belongs to the answer. It asks three questions:
//
//     among the first n?   no if n others are faster
//     on the front?        no if another one is as fast and as small
//     best of a value?     no if another one with the value is faster

#include "sim/choose/known_worth.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "sim/choose/configuration.hpp"

namespace penstock {

namespace {

/// Returns true if `one` is neither faster nor smaller than `other`.
bool is_beaten_or_equal(const Worth& one, const Worth& other) {
  return other.time <= one.time && other.bytes <= one.bytes;
}

}  // namespace

bool KnownWorth::may_matter(const ValueNumbers::Numbers& numbers, const Worth& least) const {
  return may_be_first(least) || may_be_on_front(least) || may_be_best_of_value(numbers, least);
}

// Configurations that do not fit in memory are listed after all that fit, so they count only if too few may
// fit. If two times are equal, the memory and then the choices decide the order. So a configuration with an
// equal time may still be listed.
bool KnownWorth::may_be_first(const Worth& least) const {
  const auto is_among = [&](const std::vector<std::int64_t>& times) {
    return times.size() < top_ || least.time <= times.back();
  };
  return fits(least.bytes) ? is_among(fitting_times_) : others_count_ && is_among(other_times_);
}

// If time and memory are both equal, the choices decide, so a configuration may replace an equal one on the
// front.
bool KnownWorth::may_be_on_front(const Worth& least) const {
  return std::ranges::none_of(front_, [&](const Worth& known) {
    return is_beaten_or_equal(least, known) && (known.time < least.time || known.bytes < least.bytes);
  });
}

// The fastest configuration with a value is needed even if it does not fit, because the report names it.
bool KnownWorth::may_be_best_of_value(const ValueNumbers::Numbers& numbers, const Worth& least) const {
  return std::ranges::any_of(numbers, [&](std::uint16_t value) {
    const BestOfValue& best = values_[value];
    if (least.time < best.fastest_time) return true;
    return fits(least.bytes) && (!best.fitting || least.time <= best.fitting_worth.time);
  });
}

void KnownWorth::note_time(std::size_t number, const ValueNumbers::Numbers& numbers, std::int64_t time) {
  for (const std::uint16_t value : numbers) {
    BestOfValue& best = values_[value];
    // If two times are equal, the configuration that was found first remains.
    if (time >= best.fastest_time) continue;
    best.fastest = number;
    best.fastest_time = time;
  }
}

void KnownWorth::note(std::size_t number, const ValueNumbers::Numbers& numbers, const Worth& worth) {
  // Only the `top_` shortest times are stored. The longest of them is the limit for other configurations.
  auto& times = fits(worth.bytes) ? fitting_times_ : other_times_;
  times.insert(std::ranges::upper_bound(times, worth.time), worth.time);
  if (times.size() > top_) times.pop_back();
  add_to_front(worth);
  if (!fits(worth.bytes)) return;
  for (const std::uint16_t value : numbers) {
    BestOfValue& best = values_[value];
    const bool is_better = !best.fitting || std::tie(worth.time, worth.bytes) <
                                                std::tie(best.fitting_worth.time, best.fitting_worth.bytes);
    if (!is_better) continue;
    best.fitting = number;
    best.fitting_worth = worth;
  }
}

void KnownWorth::add_to_front(const Worth& worth) {
  const auto beats = [&](const Worth& known) { return is_beaten_or_equal(worth, known); };
  if (std::ranges::any_of(front_, beats)) return;
  std::erase_if(front_, [&](const Worth& known) { return is_beaten_or_equal(known, worth); });
  front_.push_back(worth);
}

}  // namespace penstock
