#pragma once
// The instructions of a tape while it is written. Used by compile.cpp and turn_tape.cpp.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include "sim/engines/tape.hpp"

namespace penstock {

/// The instructions of a tape. They are narrow until some class number is too large; then all become wide.
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
  /// Lets the last instruction send its message to register `d`.
  void send_along(Register d) { (!is_wide_ ? narrow_.back().d : wide_.back().d) = d; }
  /// Lets the last instruction send its message to register `d` over a link.
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

  /// Makes all instructions of the tape wide. With two sizes in one tape, the loop would have to check each
  /// instruction.
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
  std::vector<WideInstruction> wide_;  // all instructions, as soon as one is wide
};

}  // namespace penstock
