// Draws one line on stderr, at most ten times a second. Several threads report their progress in any order,
// so smaller numbers are ignored. The line is erased at the end, so that only the answer stays on the
// terminal.

#include "cli/progress_bar.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <string>

#include <fmt/format.h>

namespace penstock {

namespace {

/// Returns the remaining time as text, such as ", 2 min 5 s left". It assumes the rate of the `done` points,
/// which must be at least 1.
std::string time_left(std::chrono::steady_clock::duration taken, std::size_t done, std::size_t left) {
  const double seconds =
      std::chrono::duration<double>(taken).count() / static_cast<double>(done) * static_cast<double>(left);
  const auto whole = std::llround(seconds);
  if (whole < 60) return fmt::format(", {} s left", whole);
  if (whole < 3600) return fmt::format(", {} min {} s left", whole / 60, whole % 60);
  return fmt::format(", {} h {} min left", whole / 3600, whole % 3600 / 60);
}

}  // namespace

ProgressBar::~ProgressBar() {
  // Exactly as many blanks as characters are written, because more blanks would start a new line in a narrow
  // terminal.
  if (shown_ > 0) fmt::print(stderr, "\r{:{}}\r", "", width_);
}

void ProgressBar::show(std::size_t done, std::size_t total) {
  if (display_ == ProgressDisplay::off || total == 0) return;
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  // The bar only moves forward. The last call, with done == total, is always drawn.
  if (done < shown_ || (done < total && now - last_ < std::chrono::milliseconds(100))) return;
  constexpr std::size_t kWidth = 30;
  if (shown_ == 0) {
    first_ = done;
    began_ = now;
  }
  const std::size_t filled = done * kWidth / total;
  const std::string left = done > first_ ? time_left(now - began_, done - first_, total - done) : "";
  // The padding erases the end of a longer previous line.
  const std::string line = fmt::format("[{}{}] {} of {}{:24}", std::string(filled, '#'),
                                       std::string(kWidth - filled, '.'), done, total, left);
  fmt::print(stderr, "\r{}", line);
  std::fflush(stderr);
  width_ = std::max(width_, line.size());
  shown_ = done;
  last_ = now;
}

}  // namespace penstock
