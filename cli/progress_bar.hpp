#pragma once
// A progress bar on stderr for long work. It is drawn only on a terminal.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace penstock {

enum class ProgressDisplay : std::uint8_t { off, on };

/// A bar that is drawn at most ten times a second and shows the remaining time at the present rate. The
/// destructor erases the line.
class ProgressBar {
 public:
  explicit ProgressBar(ProgressDisplay display) : display_(display) {}
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Shows the progress: `done` of `total` points. It may be called from any thread.
  void show(std::size_t done, std::size_t total);

 private:
  ProgressDisplay display_;
  std::mutex mutex_;
  std::size_t shown_ = 0;
  std::size_t width_ = 0;  ///< the number of characters of the longest line so far
  std::chrono::steady_clock::time_point last_{};
  /// The number of points that were done at the first call. They do not count for the rate.
  std::size_t first_ = 0;
  std::chrono::steady_clock::time_point began_{};
};

}  // namespace penstock
