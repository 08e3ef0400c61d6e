// One line on stderr, drawn again at most ten times a second and only onwards, since several threads report
// in any order. It is wiped at the end: what stays on the terminal is the answer.

#include "cli/progress_bar.hpp"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <string>

#include <fmt/format.h>

namespace penstock {

ProgressBar::~ProgressBar() {
  if (shown_ > 0) fmt::print(stderr, "\r{:60}\r", "");
}

void ProgressBar::show(std::size_t done, std::size_t total) {
  if (display_ == ProgressDisplay::off || total == 0) return;
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (done < shown_ || (done < total && now - last_ < std::chrono::milliseconds(100))) return;
  constexpr std::size_t kWidth = 30;
  const std::size_t filled = done * kWidth / total;
  fmt::print(stderr, "\r[{}{}] {} of {}", std::string(filled, '#'), std::string(kWidth - filled, '.'), done,
             total);
  std::fflush(stderr);
  shown_ = done;
  last_ = now;
}

}  // namespace penstock
