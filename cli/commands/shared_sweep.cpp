// Points run on other threads; this one speaks with the other processes and looks for an interrupt:
//
//   rank 0   points ..........................   hears rows, "done" of all --> "end" --> their "bye"
//   rank 1   points ...... tells rows, "done" ........................... <-- "end", tells "bye"
//
// Whatever goes wrong (Ctrl-C here or there, a process that ends or is silent) makes rank 0 say "end" at
// once, and take the rows that have come until all have gone or a moment has passed.
//
// What they say, and what rank 0 believes of it: sweep_shares.

#include "cli/commands/shared_sweep.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/commands/interruptible_sweep.hpp"
#include "cli/commands/sweep_shares.hpp"
#include "cli/interrupt.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/process_group.hpp"
#include "cli/sweep_progress_file.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/runs/sweep.hpp"

namespace penstock {
namespace {

using std::chrono::steady_clock;
using Points = std::map<std::size_t, SweepPoint>;

constexpr std::chrono::milliseconds kFarewell{500};  // between processes, when something went wrong

constexpr std::string_view kEarly = "early";  // behind "end" where that is not the sweep's end

void tell(const ProcessGroup& group, int rank, SweepWord word, std::string_view text = "") {
  std::string said(1, static_cast<char>(word));
  group.tell(rank, said.append(text));
}

/// Rank 0 alone has opened --resume: the others must know which points are not to be made. A bit a point, as
/// many as the grid has, which all know.
std::vector<bool> known_to_all(const ProcessGroup& group, std::size_t points, const Points& known) {
  std::vector<bool> is_known(points);
  for (const auto& [number, point] : known) is_known[number] = true;
  for (std::size_t begin = 0; begin < points; begin += kMostSaid) {
    const std::size_t end = std::min(points, begin + kMostSaid);
    std::string text;
    for (std::size_t i = begin; i < end; ++i) text += is_known[i] ? '1' : '0';
    const std::string said = group.first_says(text);
    for (std::size_t i = begin; i < end && i - begin < said.size(); ++i) is_known[i] = said[i - begin] == '1';
  }
  return is_known;
}

// --- all but rank 0 --------------------------------------------------------------------------------------

/// Lines that wait to be told. From any thread.
class Lines {
 public:
  void add(const std::string& line) {
    const std::scoped_lock lock(mutex_);
    text_ += line;
  }
  void tell_all(const ProcessGroup& group) {
    std::string text;
    {
      const std::scoped_lock lock(mutex_);
      text.swap(text_);
    }
    constexpr std::size_t kPortion = kMostSaid - 1;
    for (std::size_t at = 0; at < text.size(); at += kPortion)
      tell(group, 0, SweepWord::rows, std::string_view(text).substr(at, kPortion));
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

/// This process among others, of which rank 0 says when it ends.
class Helper {
 public:
  Helper(const ProcessGroup& group, InterruptNoted& interrupt) : group_(group), interrupt_(interrupt) {}

  /// Returns when all is done.
  void work(const Scenario& scenario, SweepGrid grid) {
    grid.finished = [this](std::size_t number, const SweepPoint& point) {
      lines_.add(sweep_point_json(number, point));
    };
    SweepUnderWay points(scenario, std::move(grid));
    while (!points.has_ended_within(std::chrono::milliseconds(0))) {
      lines_.tell_all(group_);
      look(kLookForInterrupt);
    }
    points.whole();
    lines_.tell_all(group_);
    tell(group_, 0, SweepWord::done);
    while (!has_ended_) look(kLookForInterrupt);
    tell(group_, 0, SweepWord::bye);
  }

 private:
  void look(std::chrono::milliseconds patience) {
    if (interrupt_.came()) end_by_interrupt();
    const auto heard = group_.hear(patience);
    if (!heard) return;
    if (heard->what != Heard::What::said) {
      write_stderr(fmt::format("penstock: process {} of {} ends, since process 0 {}", group_.rank,
                               group_.size,
                               heard->what == Heard::What::ended
                                   ? "has"
                                   : fmt::format("has been silent for {} s", kLongestSilence.count())));
      end_at_once();
    }
    has_ended_ = heard->text.starts_with(static_cast<char>(SweepWord::end));
    if (has_ended_ && heard->text.ends_with(kEarly)) end_early();
  }

  /// What was done goes to rank 0 first, which says when it has heard all.
  void end_by_interrupt() {
    lines_.tell_all(group_);
    tell(group_, 0, SweepWord::interrupted);
    const auto until = steady_clock::now() + kFarewell;
    for (std::optional<Heard> heard; !heard && steady_clock::now() < until;)
      heard = group_.hear(kLookForInterrupt);
    interrupt_.end_if_it_came();
  }

  /// Rank 0 says why.
  [[noreturn]] void end_early() {
    lines_.tell_all(group_);
    tell(group_, 0, SweepWord::bye);
    // Until rank 0 has it and goes; an interrupt of all may still come to this one.
    const auto until = steady_clock::now() + kFarewell;
    while (steady_clock::now() < until && !interrupt_.came()) {
      const auto heard = group_.hear(kLookForInterrupt);
      if (heard && heard->what != Heard::What::said) break;
    }
    interrupt_.end_if_it_came();
    end_at_once();
  }

  /// Points are under way on other threads, which an exit() would take from what they need.
  [[noreturn]] static void end_at_once() { std::_Exit(static_cast<int>(ExitCode::run_failed)); }

  const ProcessGroup& group_;
  InterruptNoted& interrupt_;
  Lines lines_;
  bool has_ended_ = false;
};

// --- rank 0 ----------------------------------------------------------------------------------------------

/// The process that gathers.
class Gatherer {
 public:
  Gatherer(const ProcessGroup& group, const std::vector<bool>& is_known, SweepProgressFile* kept,
           const InterruptNoted& interrupt)
      : group_(group), kept_(kept), interrupt_(interrupt), shares_(group.size, is_known, keeper()) {}

  SharedSweep work(const Scenario& scenario, SweepGrid grid) {
    if (kept_ != nullptr)
      grid.finished = [this](std::size_t number, const SweepPoint& point) { kept_->add(number, point); };
    SweepUnderWay points(scenario, grid);
    bool is_made = false;
    while (!is_over() && !(is_made && shares_.all_done())) {
      // Nobody wakes this thread where the last of its own points ends: it looks.
      listen(kLookForInterrupt);
      is_made = is_made || points.has_ended_within(std::chrono::milliseconds(0));
    }
    if (is_over()) points.stop();
    tell_all_to_end();
    if (is_made) {
      points.whole();  // throws what a point has thrown
    }
    grid.known.merge(points.left_behind());
    grid.known.merge(made_);
    return {.sweep = known_points(scenario, std::move(grid)), .loss = shares_.loss()};
  }

 private:
  SweepShares::Take keeper() {
    return [this](std::size_t number, SweepPoint point) {
      if (kept_ != nullptr) kept_->add(number, point);
      made_.emplace(number, std::move(point));
    };
  }

  /// Before all is done.
  bool is_over() const { return interrupt_.came() || shares_.is_lost(); }

  void listen(std::chrono::milliseconds patience) {
    // More than one a call: they come faster than one in that time.
    for (auto heard = group_.hear(patience); heard; heard = group_.hear(std::chrono::milliseconds(0)))
      shares_.take(*heard, interrupt_.came());
  }

  /// All answer when all is done; else rows that are on their way still come.
  void tell_all_to_end() {
    shares_.let_all_end();
    for (int rank = 1; rank < group_.size; ++rank) {
      if (!shares_.has_gone(rank)) tell(group_, rank, SweepWord::end, is_over() ? kEarly : "");
    }
    const auto until = steady_clock::now() + (is_over() ? kFarewell : kLongestSilence);
    while (!shares_.all_gone() && steady_clock::now() < until) listen(kLookForInterrupt);
  }

  const ProcessGroup& group_;
  SweepProgressFile* kept_;
  const InterruptNoted& interrupt_;
  SweepShares shares_;
  Points made_{};  // by others
};

}  // namespace

std::optional<SharedSweep> shared_sweep(const ProcessGroup& group, const Scenario& scenario, SweepGrid grid,
                                        SweepProgressFile* kept, InterruptNoted& interrupt) {
  const auto points = static_cast<std::size_t>(point_count(scenario, grid));
  const std::vector<bool> is_known = known_to_all(group, points, grid.known);
  grid.mine = [&group, is_known](std::size_t number) {
    return rank_of_point(number, group.size) == group.rank && !is_known[number];
  };
  if (group.rank == 0) return Gatherer(group, is_known, kept, interrupt).work(scenario, std::move(grid));
  Helper(group, interrupt).work(scenario, std::move(grid));
  return std::nullopt;
}

}  // namespace penstock
