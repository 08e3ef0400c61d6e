// Points run on other threads; this one speaks with the other processes and looks for an interrupt:
//
//   rank 0   points ..........................   hears rows, "done" of all --> "end" --> their "bye"
//   rank 1   points ...... tells rows, "done" ........................... <-- "end", tells "bye"
//
// Whatever goes wrong (Ctrl-C here or there, a process that ends or is silent) makes rank 0 say "end" at
// once, and take the rows that have come until all have gone or a moment has passed.
//
// Rows are lines, as --resume keeps them, in portions of a bounded size: a line may begin in one and end in
// another. From each process come the points of its share, each once, and no line is longer than
// kLongestLine: that bounds what rank 0 holds for it.

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

constexpr std::size_t kLongestLine = std::size_t{16} << 20;  // the cycle of a hang names every rank
constexpr std::chrono::milliseconds kFarewell{500};          // between processes, when something went wrong

/// What processes tell each other: the first character of a text.
enum class Word : char {
  rows = 'r',         // a portion of lines follows
  done = 'd',         // all points of the share are told
  interrupted = 'i',  // the same, but that there will be no more
  end = 'e',          // of rank 0: there is nothing more to do; with kEarly where that is not the sweep's end
  bye = 'b',          // "end" was heard
};

constexpr std::string_view kEarly = "early";

void tell(const ProcessGroup& group, int rank, Word word, std::string_view text = "") {
  std::string said(1, static_cast<char>(word));
  group.tell(rank, said.append(text));
}

bool is_of(const ProcessGroup& group, int rank, std::size_t number) {
  // Every size-th from its rank on: neighbours in the grid take about as long, so that all have about as much
  // to do.
  return number % static_cast<std::size_t>(group.size) == static_cast<std::size_t>(rank);
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
      tell(group, 0, Word::rows, std::string_view(text).substr(at, kPortion));
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
    tell(group_, 0, Word::done);
    while (!has_ended_) look(kLookForInterrupt);
    tell(group_, 0, Word::bye);
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
    has_ended_ = heard->text.starts_with(static_cast<char>(Word::end));
    if (has_ended_ && heard->text.ends_with(kEarly)) end_early();
  }

  /// What was done goes to rank 0 first, which says when it has heard all.
  void end_by_interrupt() {
    lines_.tell_all(group_);
    tell(group_, 0, Word::interrupted);
    const auto until = steady_clock::now() + kFarewell;
    for (std::optional<Heard> heard; !heard && steady_clock::now() < until;)
      heard = group_.hear(kLookForInterrupt);
    interrupt_.end_if_it_came();
  }

  /// Rank 0 says why.
  [[noreturn]] void end_early() {
    lines_.tell_all(group_);
    tell(group_, 0, Word::bye);
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

/// What another process has sent.
struct Share {
  std::size_t points = 0;       ///< that are its to make
  std::size_t missing = 0;      ///< of these
  std::string begun_line{};     ///< what has come of a line
  bool is_done = false;         ///< all is told that will be
  bool is_interrupted = false;  ///< it says no more
  bool has_gone = false;        ///< or has said good-bye
};

/// The process that gathers.
class Gatherer {
 public:
  Gatherer(const ProcessGroup& group, const std::vector<bool>& is_known, SweepProgressFile* kept,
           const InterruptNoted& interrupt)
      : group_(group),
        kept_(kept),
        interrupt_(interrupt),
        is_known_(is_known),
        shares_(sizes(group, is_known)) {}

  SharedSweep work(const Scenario& scenario, SweepGrid grid) {
    if (kept_ != nullptr)
      grid.finished = [this](std::size_t number, const SweepPoint& point) { kept_->add(number, point); };
    SweepUnderWay points(scenario, grid);
    bool is_made = false;
    while (!is_over() && !(is_made && all_done())) {
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
    return {.sweep = known_points(scenario, std::move(grid)), .loss = loss_text()};
  }

 private:
  static std::vector<Share> sizes(const ProcessGroup& group, const std::vector<bool>& is_known) {
    std::vector<Share> shares(static_cast<std::size_t>(group.size));
    for (std::size_t number = 0; number < is_known.size(); ++number)
      if (!is_known[number]) ++shares[number % shares.size()].points;
    for (Share& one : shares) one.missing = one.points;
    return shares;
  }

  Share& share(int rank) { return shares_[static_cast<std::size_t>(rank)]; }
  const Share& share(int rank) const { return shares_[static_cast<std::size_t>(rank)]; }

  /// Before all is done.
  bool is_over() const { return interrupt_.came() || lost_.has_value(); }
  bool all_done() const {
    return std::all_of(shares_.begin() + 1, shares_.end(), [](const Share& one) { return one.is_done; });
  }
  bool all_gone() const {
    return std::all_of(shares_.begin() + 1, shares_.end(),
                       [](const Share& one) { return one.has_gone || one.is_interrupted; });
  }

  void lose(int rank, std::string why) {
    if (!lost_) lost_ = Lost{.rank = rank, .why = std::move(why)};
  }

  void listen(std::chrono::milliseconds patience) {
    // More than one a call: they come faster than one in that time.
    for (auto heard = group_.hear(patience); heard; heard = group_.hear(std::chrono::milliseconds(0)))
      take(*heard);
  }

  void take(const Heard& heard) {
    Share& from = share(heard.rank);
    switch (heard.what) {
      case Heard::What::ended:
        // Who has told all its points may go: nothing is missing.
        if (!from.is_done && !from.has_gone && !has_told_end_) lose(heard.rank, "has ended");
        from.has_gone = true;
        return;
      case Heard::What::silent:
        if (!from.is_done && !from.has_gone)
          lose(heard.rank, fmt::format("has been silent for {} s", kLongestSilence.count()));
        from.has_gone = true;
        return;
      case Heard::What::said:
        take_word(heard.rank, heard.text);
        return;
    }
  }

  void take_word(int rank, const std::string& text) {
    switch (text.empty() ? Word::end : static_cast<Word>(text.front())) {
      case Word::rows:
        take_rows(rank, std::string_view(text).substr(1));
        return;
      case Word::done:
        share(rank).is_done = true;
        return;
      case Word::interrupted:
        share(rank).is_interrupted = true;
        // Where all were interrupted, nobody is lost.
        if (!interrupt_.came()) lose(rank, "was interrupted");
        return;
      case Word::bye:
        share(rank).has_gone = true;
        return;
      case Word::end:
        return;
    }
  }

  void take_rows(int rank, std::string_view portion) {
    std::string& line = share(rank).begun_line;
    while (!portion.empty()) {
      const std::size_t end = portion.find('\n');
      line += portion.substr(0, end);
      if (end == std::string_view::npos) break;
      portion.remove_prefix(end + 1);
      take_point(rank, std::exchange(line, {}));
    }
    if (line.size() > kLongestLine) {
      line.clear();
      lose(rank, "has sent a line that is longer than any of a point");
    }
  }

  void take_point(int rank, const std::string& line) {
    auto point = sweep_point_of_json(line);
    const bool is_awaited = point && point->first < is_known_.size() && is_of(group_, rank, point->first) &&
                            !is_known_[point->first] && !made_.contains(point->first);
    if (!is_awaited) {
      lose(rank, point ? fmt::format("has sent point {}, which is none of its own", point->first)
                       : fmt::format("has sent no point ({})", point.error()));
      return;
    }
    --share(rank).missing;
    if (kept_ != nullptr) kept_->add(point->first, point->second);
    made_.emplace(point->first, std::move(point->second));
  }

  /// All answer when all is done; else rows that are on their way still come.
  void tell_all_to_end() {
    has_told_end_ = true;
    for (int rank = 1; rank < group_.size; ++rank) {
      if (!share(rank).has_gone) tell(group_, rank, Word::end, is_over() ? kEarly : "");
    }
    const auto until = steady_clock::now() + (is_over() ? kFarewell : kLongestSilence);
    while (!all_gone() && steady_clock::now() < until) listen(kLookForInterrupt);
  }

  std::optional<std::string> loss_text() const {
    if (!lost_) return std::nullopt;
    const Share& of_lost = share(lost_->rank);
    return fmt::format("process {} of {} {}: {} of its {} points are missing", lost_->rank, group_.size,
                       lost_->why, of_lost.missing, of_lost.points);
  }

  struct Lost {
    int rank = 0;
    std::string why;
  };

  const ProcessGroup& group_;
  SweepProgressFile* kept_;
  const InterruptNoted& interrupt_;
  const std::vector<bool>& is_known_;
  std::vector<Share> shares_;  // by rank
  Points made_{};              // by others
  std::optional<Lost> lost_{};
  bool has_told_end_ = false;
};

}  // namespace

std::optional<SharedSweep> shared_sweep(const ProcessGroup& group, const Scenario& scenario, SweepGrid grid,
                                        SweepProgressFile* kept, InterruptNoted& interrupt) {
  const auto points = static_cast<std::size_t>(point_count(scenario, grid));
  const std::vector<bool> is_known = known_to_all(group, points, grid.known);
  grid.mine = [&group, is_known](std::size_t number) {
    return is_of(group, group.rank, number) && !is_known[number];
  };
  if (group.rank == 0) return Gatherer(group, is_known, kept, interrupt).work(scenario, std::move(grid));
  Helper(group, interrupt).work(scenario, std::move(grid));
  return std::nullopt;
}

}  // namespace penstock
