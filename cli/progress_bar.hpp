#pragma once
// A progress bar on stderr for long work. It is drawn only on a terminal.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace penstock {

enum class ProgressDisplay : std::uint8_t { off, on };

/// Draws at most ten times a second, with the time that is left at the present rate. The destructor erases
/// the line.
class ProgressBar {
 public:
  explicit ProgressBar(ProgressDisplay display) : display_(display) {}
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Shows the progress. May be called from any thread.
  void show(std::size_t done, std::size_t total);

 private:
  ProgressDisplay display_;
  std::mutex mutex_;
  std::size_t shown_ = 0;
  std::size_t width_ = 0;  ///< characters of the longest line so far
  std::chrono::steady_clock::time_point last_{};
  std::size_t first_ = 0;  ///< number done at the first call; earlier work does not count for the rate
  std::chrono::steady_clock::time_point began_{};
};

}  // namespace penstock
