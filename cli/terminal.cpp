// Finds out what the terminal can show. There is no query that all terminals answer, so programs read the
// variables TERM and COLORTERM. Users who want no colours set NO_COLOR (no-color.org).
#include "cli/terminal.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction() is POSIX's
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/flags.hpp"
#include "cli/output.hpp"
#include "report/print/palette.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/sweep/sweep.hpp"
#include "text/numbers.hpp"

namespace penstock {

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets any
  return value == nullptr ? "" : value;
}

std::optional<std::int32_t> terminal_columns() {
  const auto columns = number_of_text<std::int32_t>(environment("COLUMNS"));
  if (columns && *columns > 0) return columns;
  winsize size{};
  // Shells usually do not export COLUMNS. In this case the width is read from the terminal.
  // NOLINTNEXTLINE(misc-include-cleaner): <sys/ioctl.h> has it
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return std::nullopt;
}

std::size_t table_width() { return static_cast<std::size_t>(terminal_columns().value_or(0)); }

TerminalColours colours_of(const TerminalDescription& terminal) {
  const std::string_view term = terminal.term;
  if (term.empty() || term == "dumb") return TerminalColours::none;
  const bool announced = terminal.colorterm == "truecolor" || terminal.colorterm == "24bit";
  // COLORTERM has priority over TERM, because most terminals with 24-bit colours still set TERM to
  // xterm-256color.
  if (announced || term.ends_with("-direct")) return TerminalColours::true_colour;
  return term.find("256color") != std::string_view::npos ? TerminalColours::indexed : TerminalColours::basic;
}

TerminalColours wanted_colours(std::string_view when) {
  const TerminalColours shown =
      colours_of({.term = environment("TERM"), .colorterm = environment("COLORTERM")});
  if (when == "always") return shown == TerminalColours::none ? TerminalColours::basic : shown;
  const bool wanted = when == "auto" && environment("NO_COLOR").empty() && stdout_is_terminal();
  return wanted ? shown : TerminalColours::none;
}

// Draws a progress line on stderr. Several threads report how many points are done, and their reports may
// arrive in any order. A number that is smaller than the last one is therefore ignored. The line is erased at
// the end, so that only the answer remains on the terminal.

namespace {

/// Returns the remaining time as text, such as ", 2 min 5 s left". It assumes that the remaining points are
/// as fast as the `done` points. `done` must be at least 1.
std::string time_left(std::chrono::steady_clock::duration taken, std::size_t done, std::size_t left) {
  const double seconds =
      std::chrono::duration<double>(taken).count() / static_cast<double>(done) * static_cast<double>(left);
  const auto whole = std::llround(seconds);
  if (whole < 60) return fmt::format(", {} s left", whole);
  if (whole < 3600) return fmt::format(", {} min {} s left", whole / 60, whole % 60);
  return fmt::format(", {} h {} min left", whole / 3600, whole % 3600 / 60);
}

}  // namespace

ProgressDisplay display_for(const OutputFlags& flags) {
  return !flags.quiet && stderr_is_terminal() ? ProgressDisplay::on : ProgressDisplay::off;
}

ProgressBar::~ProgressBar() {
  drawer_ = {};  // waits for the thread's end, so that it draws nothing after this line
  // Exactly as many blanks are written as the line has characters, because in a narrow terminal more blanks
  // would start a new line.
  if (width_ > 0) fmt::print(stderr, "\r{:{}}\r", "", width_);
}

void ProgressBar::show(std::size_t done, std::size_t total) {
  if (display_ == ProgressDisplay::off || total == 0) return;
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  // The bar only moves forward. The last call, with done == total, is always drawn.
  if (done < shown_ || (done < total && now - last_ < std::chrono::milliseconds(100))) return;
  constexpr std::size_t kWidth = 30;
  if (width_ == 0) {
    first_ = done;
    began_ = now;
  }
  const std::size_t filled = done * kWidth / total;
  const std::string left = done > first_ ? time_left(now - began_, done - first_, total - done) : "";
  draw(fmt::format("[{}{}] {} of {}{}", std::string(filled, '#'), std::string(kWidth - filled, '.'), done,
                   total, left));
  shown_ = done;
  last_ = now;
}

void ProgressBar::say(std::string step, std::chrono::milliseconds delay) {
  if (display_ == ProgressDisplay::off) return;
  const std::lock_guard lock(mutex_);
  step_ = std::move(step);
  if (began_ == std::chrono::steady_clock::time_point{}) began_ = std::chrono::steady_clock::now();
  if (!drawer_.joinable())
    drawer_ = std::jthread([this, delay](const std::stop_token& stop) { draw_step_until(stop, delay); });
  step_changed_.notify_all();
}

void ProgressBar::draw_step_until(const std::stop_token& stop, std::chrono::milliseconds delay) {
  std::unique_lock lock(mutex_);
  step_changed_.wait_for(lock, stop, delay, [] { return false; });
  while (!stop.stop_requested()) {
    const auto taken = std::chrono::steady_clock::now() - began_;
    draw(fmt::format("{}, {} s", step_, std::chrono::duration_cast<std::chrono::seconds>(taken).count()));
    const std::string drawn = step_;
    step_changed_.wait_for(lock, stop, std::chrono::seconds(1), [&] { return step_ != drawn; });
  }
}

/// Draws the bar over its previous line. If that line was longer, blanks erase its end.
void ProgressBar::draw(std::string_view line) {
  width_ = std::max(width_, line.size());
  fmt::print(stderr, "\r{:{}}", line, width_);
  std::fflush(stderr);
}

// Records SIGINT and SIGTERM. The handler only stores the number of the signal, because few other operations
// are safe in a handler. With SA_RESETHAND, a second signal ends the program. If a signal was ignored when
// the program started (as shells do for Ctrl-C with `&`), it stays ignored.

namespace {

constexpr std::array<int, 2> kSignals = {SIGINT, SIGTERM};

// A signal handler may only use lock-free variables.
std::atomic<int> noted_signal = 0;  // NOLINT(readability-identifier-naming): no constant
static_assert(std::atomic<int>::is_always_lock_free);

void note_signal(int number) { noted_signal = number; }

}  // namespace

InterruptNoted::InterruptNoted() {
  noted_signal = 0;  // clears the signal of an earlier object
  struct sigaction action{};
  action.sa_handler = note_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptNoted::~InterruptNoted() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

bool InterruptNoted::came() const { return noted_signal != 0; }

void InterruptNoted::end_if_it_came() {
  if (!came()) return;
  // The default action ends the program by the signal. A shell then sees status 130 and stops its script, and
  // make removes its target.
  std::signal(noted_signal, SIG_DFL);
  std::raise(noted_signal);
}

// Ends a sweep soon after Ctrl-C, although one point may take minutes. For this purpose, another thread runs
// the points:
//
//   this thread    waits for the end or an interrupt ---- takes the finished points ---- returns their sweep
//   the other      point, point, point, a long point ..............................................
//   (abandoned)

namespace {

/// The interval at which the thread that waits for the sweep checks for an interrupt.
constexpr std::chrono::milliseconds kLook{20};
/// The time that running points get after an interrupt to finish their work.
constexpr std::chrono::milliseconds kPatience{200};

/// The finished points of a sweep. The thread that waits for the sweep and the thread that computes it share
/// them.
struct DonePoints {
  std::atomic<bool> is_stopped = false;
  std::mutex mutex;
  bool is_closed = false;
  std::map<std::size_t, SweepPoint> points{};
};

/// Returns the grid of the sweep with callbacks that store finished points in `done`. When `done` is
/// closed, the callbacks do nothing.
SweepGrid noting(SweepGrid grid, const std::shared_ptr<DonePoints>& done) {
  grid.finished = [done, finished = std::move(grid.finished)](std::size_t number, const SweepPoint& point) {
    const std::scoped_lock lock(done->mutex);
    if (done->is_closed) return;
    done->points.emplace(number, point);
    if (finished) finished(number, point);
  };
  grid.progress = [done, progress = std::move(grid.progress)](std::size_t count, std::size_t total) {
    const std::scoped_lock lock(done->mutex);
    if (!done->is_closed && progress) progress(count, total);
  };
  grid.stopped = [done] { return done->is_stopped.load(); };
  return grid;
}

}  // namespace

Sweep sweep_until(const InterruptNoted& interrupt, const Scenario& scenario, SweepGrid grid) {
  const auto done = std::make_shared<DonePoints>();
  std::packaged_task<Sweep()> task([scenario, noted = noting(grid, done)] { return sweep(scenario, noted); });
  std::future<Sweep> whole = task.get_future();
  std::thread(std::move(task)).detach();
  while (whole.wait_for(kLook) != std::future_status::ready && !interrupt.came()) {
  }
  done->is_stopped = true;
  if (whole.wait_for(interrupt.came() ? kPatience : kLook) == std::future_status::ready) return whole.get();
  {
    const std::scoped_lock lock(done->mutex);
    done->is_closed = true;
    grid.known.merge(done->points);
  }
  // No other thread changes the points any more. Because `stopped` returns true, the sweep below returns the
  // known points and starts no others.
  grid.finished = nullptr;
  grid.progress = nullptr;
  grid.stopped = [] { return true; };
  return sweep(scenario, grid);
}

}  // namespace penstock
