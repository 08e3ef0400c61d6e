#pragma once
// A bar on stderr for long work; drawn only on a terminal.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace penstock {

enum class ProgressDisplay : std::uint8_t { off, on };

/// Draws at most ten times a second, with the time that is left at the rate so far; the line is cleared when
/// it is destroyed.
class ProgressBar {
 public:
  explicit ProgressBar(ProgressDisplay display) : display_(display) {}
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// May be called from any thread.
  void show(std::size_t done, std::size_t total);

 private:
  ProgressDisplay display_;
  std::mutex mutex_;
  std::size_t shown_ = 0;
  std::size_t width_ = 0;  ///< characters of the longest line so far
  std::chrono::steady_clock::time_point last_{};
  std::size_t first_ = 0;  ///< done at the first call: work of before is no measure of the rate
  std::chrono::steady_clock::time_point began_{};
};

}  // namespace penstock
