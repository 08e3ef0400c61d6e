#pragma once
// The terminal on which answers are shown: its width, its colours, and a progress bar on stderr.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "cli/flags.hpp"
#include "report/print/palette.hpp"

namespace penstock {

/// Returns the value of an environment variable, or an empty text if it is not set.
std::string environment(const char* name);

/// Returns the number in COLUMNS, or the width of the terminal on standard output. Returns nothing if COLUMNS
/// is not set and there is no terminal.
std::optional<std::int32_t> terminal_columns();

/// Returns the longest table line in characters. The result is 0 (no limit) if there is no terminal.
std::size_t table_width();

/// The environment variables that describe the terminal's colours.
struct TerminalDescription {
  std::string term;       ///< the variable TERM
  std::string colorterm;  ///< the variable COLORTERM
};
/// Returns the colours of the terminal. If COLORTERM is "truecolor" or "24bit", or if TERM ends in "-direct",
/// they have 24 bits. If TERM contains "256color", there are 256 colours. If TERM is "dumb" or not set, there
/// are none. Otherwise there are 16 colours.
TerminalColours colours_of(const TerminalDescription& terminal);

/// Returns the colours to use. `when` is "auto", "always" or "never". With "auto", the result is `none` if
/// there is no terminal or NO_COLOR is not empty. With "always", there are at least 16 colours.
TerminalColours wanted_colours(std::string_view when);

// A progress bar on stderr for long work. It is drawn only on a terminal.

enum class ProgressDisplay : std::uint8_t { off, on };

/// Returns `on` if stderr is a terminal and the user has not asked for silence.
ProgressDisplay display_for(const OutputFlags& flags);

/// The line by which long commands show their progress. show() draws a bar if the number of points is known.
/// say() draws the name of a step otherwise. The destructor erases the line.
class ProgressBar {
 public:
  explicit ProgressBar(ProgressDisplay display) : display_(display) {}
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Shows the progress: `done` of `total` points. It may be called from any thread. The bar is drawn at most
  /// ten times a second, with the remaining time, computed from the rate so far.
  void show(std::size_t done, std::size_t total);

  /// Shows the name of a step of unknown length, such as "searching plans", and the seconds since its first
  /// call. The line is drawn at once and then every second, until the next call or the destructor.
  void say(std::string step);

 private:
  void draw(std::string_view line);
  void draw_step_until(const std::stop_token& stop);

  ProgressDisplay display_;
  std::mutex mutex_;
  std::string step_;
  std::size_t shown_ = 0;
  std::size_t width_ = 0;  ///< the number of characters of the longest line so far
  std::chrono::steady_clock::time_point last_{};
  /// The number of points that were done at the first call. They are not used to compute the rate.
  std::size_t first_ = 0;
  std::chrono::steady_clock::time_point began_{};
  std::condition_variable_any step_changed_;
  std::jthread drawer_;  ///< draws the step of say(); not started before the first call
};

}  // namespace penstock
