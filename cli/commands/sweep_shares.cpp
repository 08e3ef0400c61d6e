// Rows are lines, as --resume keeps them, in portions of a bounded size: a line may begin in one and end in
// another.
//
//   of process 2 of 3:  "r" {"point":2,...}\n{"poi   "r" nt":5,...}\n   "d"
//                            ^ its own, and new: taken
//
// From each process come the points of its share, each once, and no line is longer than that of a point: that
// bounds what rank 0 holds for it. Whoever sends anything else is lost, as one is that ends or is silent.

#include "cli/commands/sweep_shares.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/process_group.hpp"
#include "report/result/sweep_table.hpp"

namespace penstock {

SweepShares::SweepShares(int size, std::vector<bool> is_known, Take take, std::size_t longest_line)
    : shares_(static_cast<std::size_t>(size)),
      is_told_(std::move(is_known)),
      take_(std::move(take)),
      longest_line_(longest_line) {
  for (std::size_t number = 0; number < is_told_.size(); ++number) {
    const int rank = rank_of_point(number, size);
    if (rank > 0 && !is_told_[number]) ++share(rank).points;
  }
  for (Share& one : shares_) one.missing = one.points;
}

bool SweepShares::all_done() const {
  return std::all_of(shares_.begin() + 1, shares_.end(), [](const Share& one) { return one.is_done; });
}

bool SweepShares::all_gone() const {
  return std::all_of(shares_.begin() + 1, shares_.end(),
                     [](const Share& one) { return one.has_gone || one.is_interrupted; });
}

bool SweepShares::has_gone(int rank) const { return share(rank).has_gone; }

std::optional<std::string> SweepShares::loss() const {
  if (!lost_) return std::nullopt;
  const Share& of_lost = share(lost_->rank);
  return fmt::format("process {} of {} {}: {} of its {} points are missing", lost_->rank, shares_.size(),
                     lost_->why, of_lost.missing, of_lost.points);
}

void SweepShares::lose(int rank, std::string why) {
  if (!lost_) lost_ = Lost{.rank = rank, .why = std::move(why)};
}

void SweepShares::take(const Heard& heard, bool is_interrupted) {
  Share& from = share(heard.rank);
  switch (heard.what) {
    case Heard::What::ended:
      // Who has told all its points may go: nothing is missing.
      if (!from.is_done && !from.has_gone && !may_end_) lose(heard.rank, "has ended");
      from.has_gone = true;
      return;
    case Heard::What::silent:
      if (!from.is_done && !from.has_gone)
        lose(heard.rank, fmt::format("has been silent for {} s", kLongestSilence.count()));
      from.has_gone = true;
      return;
    case Heard::What::said:
      take_word(heard.rank, heard.text, is_interrupted);
      return;
  }
}

void SweepShares::take_word(int rank, const std::string& text, bool is_interrupted) {
  Share& from = share(rank);
  switch (text.empty() ? SweepWord::end : static_cast<SweepWord>(text.front())) {
    case SweepWord::rows:
      take_rows(rank, std::string_view(text).substr(1));
      return;
    case SweepWord::done:
      from.is_done = true;
      if (from.missing > 0) lose(rank, "says that it is done");
      return;
    case SweepWord::interrupted:
      from.is_interrupted = true;
      // Where all were interrupted, nobody is lost.
      if (!is_interrupted) lose(rank, "was interrupted");
      return;
    case SweepWord::bye:
      from.has_gone = true;
      return;
    case SweepWord::end:
      break;
  }
  lose(rank, "has sent what nobody says who shares a sweep");
}

void SweepShares::take_rows(int rank, std::string_view portion) {
  std::string& line = share(rank).begun_line;
  while (!portion.empty()) {
    const std::size_t end = portion.find('\n');
    line += portion.substr(0, end);
    if (end == std::string_view::npos) break;
    portion.remove_prefix(end + 1);
    take_point(rank, std::exchange(line, {}));
  }
  if (line.size() > longest_line_) {
    line.clear();
    lose(rank, "has sent a line that is longer than any of a point");
  }
}

void SweepShares::take_point(int rank, const std::string& line) {
  auto point = sweep_point_of_json(line);
  if (!point) {
    lose(rank, fmt::format("has sent no point ({})", point.error()));
    return;
  }
  const std::size_t number = point->first;
  const bool is_awaited = number < is_told_.size() &&
                          rank_of_point(number, static_cast<int>(shares_.size())) == rank &&
                          !is_told_[number];
  if (!is_awaited) {
    lose(rank, fmt::format("has sent point {}, which is none of its own", number));
    return;
  }
  is_told_[number] = true;
  --share(rank).missing;
  take_(number, std::move(point->second));
}

}  // namespace penstock
