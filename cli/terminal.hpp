#pragma once
// Finds the width and the colours of the terminal that shows the answers, and draws a progress bar on stderr.

#include <array>
#include <chrono>
#include <condition_variable>
#include <csignal>
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
#include "report/result/sweep_table.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/sweep/sweep.hpp"

namespace penstock {

/// Returns the value of an environment variable, or an empty text if it is not set.
std::string environment(const char* name);

/// Returns the number of columns of the terminal. It is the number in COLUMNS, or the width of the terminal
/// on standard output. Returns nothing if COLUMNS is not set and there is no terminal.
std::optional<std::int32_t> terminal_columns();

/// Returns the longest length of a table line in characters: the number of columns of the terminal. Returns
/// 0 (no limit) if this number is not known.
std::size_t table_width();

/// The environment variables that say which colours the terminal can show.
struct TerminalDescription {
  std::string term;       ///< the variable TERM
  std::string colorterm;  ///< the variable COLORTERM
};
/// Returns the colours that the terminal can show. If COLORTERM is "truecolor" or "24bit", or if TERM ends
/// in "-direct", they have 24 bits. If TERM contains "256color", there are 256 colours. If TERM is "dumb"
/// or not set, there are none. In all other cases, there are 16 colours.
TerminalColours colours_of(const TerminalDescription& terminal);

/// Returns the colours in which output is written. `when` is "auto", "always" or "never". With "auto", the
/// result is `none` if there is no terminal or if NO_COLOR is not empty. With "always", there are at least
/// 16 colours.
TerminalColours wanted_colours(std::string_view when);

// A progress bar on stderr for long work. It is drawn only on a terminal.

enum class ProgressDisplay : std::uint8_t { off, on };

/// Returns `on` if stderr is a terminal and the user has not given --quiet. Otherwise returns `off`.
ProgressDisplay display_for(const OutputFlags& flags);

/// The time from which a run with a single step shows the step. Most runs are shorter.
inline constexpr std::chrono::milliseconds kShownFrom{2000};

/// The line on stderr by which long commands show their progress. If the number of points is known, show()
/// draws a bar. Otherwise say() draws the name of a step. The destructor erases the line.
class ProgressBar {
 public:
  explicit ProgressBar(ProgressDisplay display) : display_(display) {}
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Shows that `done` of `total` points are done. Any thread may call it. The bar is drawn at most ten
  /// times a second. It includes the remaining time, computed from the rate so far.
  void show(std::size_t done, std::size_t total);

  /// Shows the name of a step whose length is unknown, such as "searching plans", and the seconds since the
  /// first call for this step. The line is drawn at once and then every second, until the next call or the
  /// destructor. With a delay at the first call, no line is drawn before the delay is over.
  void say(std::string step, std::chrono::milliseconds delay = {});

 private:
  void draw(std::string_view line);
  void draw_step_until(const std::stop_token& stop, std::chrono::milliseconds delay);

  ProgressDisplay display_;
  std::mutex mutex_;
  std::string step_;
  std::size_t shown_ = 0;
  std::size_t width_ = 0;  ///< the number of characters of the longest line so far
  std::chrono::steady_clock::time_point last_{};
  /// The number of points that were done at the first call of show(). The rate does not count them, because
  /// an earlier run may have computed them.
  std::size_t first_ = 0;
  std::chrono::steady_clock::time_point began_{};
  std::condition_variable_any step_changed_;
  std::jthread drawer_;  ///< draws the step of say(); not started before the first call
};

// Handles Ctrl-C during long work that has useful partial results. The first Ctrl-C asks the work to stop,
// and a second one ends the program.

/// An object during whose lifetime SIGINT and SIGTERM are recorded and do not end the program. Signals that
/// the process ignores stay ignored. Only one such object may exist at a time.
class InterruptNoted {
 public:
  InterruptNoted();
  ~InterruptNoted();
  InterruptNoted(const InterruptNoted&) = delete;
  InterruptNoted& operator=(const InterruptNoted&) = delete;

  /// Returns true if a signal has arrived. It may be called from any thread.
  bool came() const;
  /// Ends the program by the signal that has arrived, so that the parent process sees this signal. Does
  /// nothing if no signal has arrived.
  void end_if_it_came();

 private:
  std::array<struct sigaction, 2> before_{};
};

// Runs a sweep that ends soon after an interrupt (Ctrl-C). sweep_command.cpp uses it.

/// Computes and returns the sweep. If an interrupt comes, the sweep has only the finished points. The
/// threads of the other points then continue. Therefore the program must end by
/// InterruptNoted::end_if_it_came() and not by exit(). The function does not call the `stopped` function of
/// the grid.
Sweep sweep_until(const InterruptNoted& interrupt, const Scenario& scenario, SweepGrid grid);

}  // namespace penstock
