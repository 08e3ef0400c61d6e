// Finds out what the terminal can show. There is no query that all terminals answer, so programs read the
// variables TERM and COLORTERM. Users who want no colours set NO_COLOR (no-color.org).

#include "cli/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "cli/flags.hpp"
#include "cli/output.hpp"
#include "report/print/palette.hpp"
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
  // Exactly as many blanks are written as the line has characters. In a narrow terminal, more blanks would
  // start a new line.
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

void ProgressBar::say(std::string step) {
  if (display_ == ProgressDisplay::off) return;
  const std::lock_guard lock(mutex_);
  step_ = std::move(step);
  if (began_ == std::chrono::steady_clock::time_point{}) began_ = std::chrono::steady_clock::now();
  if (!drawer_.joinable())
    drawer_ = std::jthread([this](const std::stop_token& stop) { draw_step_until(stop); });
  step_changed_.notify_all();
}

void ProgressBar::draw_step_until(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
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

}  // namespace penstock
