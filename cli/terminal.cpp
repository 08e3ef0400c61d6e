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
#include <string>
#include <string_view>

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

// Draws one line on stderr, at most ten times a second. Several threads report their progress in any order. A
// number that is smaller than the last one is ignored. The line is erased at the end, so that only the answer
// remains on the terminal.

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
  // The padding erases the end of the previous line if that line was longer.
  const std::string line = fmt::format("[{}{}] {} of {}{:24}", std::string(filled, '#'),
                                       std::string(kWidth - filled, '.'), done, total, left);
  fmt::print(stderr, "\r{}", line);
  std::fflush(stderr);
  width_ = std::max(width_, line.size());
  shown_ = done;
  last_ = now;
}

}  // namespace penstock
