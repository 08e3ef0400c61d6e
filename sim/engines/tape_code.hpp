#pragma once
// The instructions of a tape while they are written. Used by compile.cpp and turn_tape.cpp.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include "sim/engines/tape.hpp"

namespace penstock {

/// The instructions of a tape: narrow ones, until some class is too large for them.
class TapeCode {
 public:
  void reserve(std::size_t instructions) { narrow_.reserve(instructions); }
  std::size_t size() const { return !is_wide_ ? narrow_.size() : wide_.size(); }

  void add(Register a, Register b, Register d, std::uint32_t duration, std::uint32_t link) {
    if (!is_wide_ && fits(duration | link)) [[likely]] {
      narrow_.emplace_back(a, b, d, static_cast<std::uint16_t>(duration), static_cast<std::uint16_t>(link));
    } else {
      add_wide({.a = a, .b = b, .d = d, .duration = duration, .link = link});
    }
  }

  Register last_clock() const { return !is_wide_ ? narrow_.back().a : wide_.back().a; }
  Register last_message() const { return !is_wide_ ? narrow_.back().d : wide_.back().d; }
  std::uint32_t last_duration() const { return !is_wide_ ? narrow_.back().duration : wide_.back().duration; }
  /// What the last instruction sends goes to register `d`.
  void send_along(Register d) { (!is_wide_ ? narrow_.back().d : wide_.back().d) = d; }
  /// ... over a link.
  void send_along(Register d, std::uint32_t link) {
    send_along(d);
    if (!fits(link)) widen();
    if (!is_wide_) {
      narrow_.back().link = static_cast<std::uint16_t>(link);
    } else {
      wide_.back().link = link;
    }
  }

  std::variant<std::vector<NarrowInstruction>, std::vector<WideInstruction>> instructions() && {
    if (!is_wide_) return std::move(narrow_);
    return std::move(wide_);
  }

 private:
  static bool fits(std::uint32_t number) { return number <= std::numeric_limits<std::uint16_t>::max(); }

  [[gnu::noinline]] void add_wide(const WideInstruction& instruction) {
    widen();
    wide_.push_back(instruction);
  }

  /// Once for the whole tape: a loop over instructions of two sizes would have to look at each.
  [[gnu::noinline]] void widen() {
    if (is_wide_) return;
    is_wide_ = true;
    wide_.reserve(narrow_.capacity());
    for (const NarrowInstruction& step : narrow_)
      wide_.emplace_back(step.a, step.b, step.d, step.duration, step.link);
    narrow_ = {};
  }

  bool is_wide_ = false;
  std::vector<NarrowInstruction> narrow_;
  std::vector<WideInstruction> wide_;  // all of them, once it has one
};

}  // namespace penstock
