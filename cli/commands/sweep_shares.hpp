#pragma once
// What processes that share a sweep tell each other, and what rank 0 makes of it. Used by shared_sweep.cpp.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/process_group.hpp"
#include "report/result/sweep_table.hpp"

namespace penstock {

/// The first character of a text.
enum class SweepWord : char {
  rows = 'r',         // a portion of lines follows
  done = 'd',         // all points of the share are told
  interrupted = 'i',  // the same, but that there will be no more
  end = 'e',          // of rank 0: there is nothing more to do
  bye = 'b',          // "end" was heard
};

/// The most bytes of a line of a point that another process tells: the cycle of a hang names every rank. Of
/// those that are kept on a disk the limit is lower, since such a point can be made again.
inline constexpr std::size_t kLongestToldLine = std::size_t{16} << 20;

/// The process of `size` that makes a point: every size-th from its rank on, since neighbours in the grid
/// take about as long.
inline int rank_of_point(std::size_t number, int size) {
  return static_cast<int>(number % static_cast<std::size_t>(size));
}

/// The shares of all but rank 0: what they have told, how much is missing, and who of them is lost.
class SweepShares {
 public:
  /// A point that came: of the share of who sent it, not known before, and for the first time.
  using Take = std::function<void(std::size_t number, SweepPoint)>;

  /// `is_known` by point: that nobody makes it. `longest_line` in bytes.
  SweepShares(int size, std::vector<bool> is_known, Take take, std::size_t longest_line = kLongestToldLine);

  /// `is_interrupted`: whether this process is, too; then nobody is lost who was.
  void take(const Heard& heard, bool is_interrupted);
  /// From now on who ends is not lost.
  void let_all_end() { may_end_ = true; }

  bool all_done() const;          ///< all have told all that they will
  bool all_gone() const;          ///< nobody says anything more
  bool has_gone(int rank) const;  ///< that one does not
  bool is_lost() const { return lost_.has_value(); }
  /// Who was lost first, why, and how many of its points are missing; nothing where nobody was.
  std::optional<std::string> loss() const;

 private:
  struct Share {
    std::size_t points = 0;       ///< that are its to make
    std::size_t missing = 0;      ///< of these
    std::string begun_line{};     ///< what has come of a line
    bool is_done = false;         ///< all is told that will be
    bool is_interrupted = false;  ///< it says no more
    bool has_gone = false;        ///< or has said good-bye
  };
  struct Lost {
    int rank = 0;
    std::string why;
  };

  Share& share(int rank) { return shares_[static_cast<std::size_t>(rank)]; }
  const Share& share(int rank) const { return shares_[static_cast<std::size_t>(rank)]; }
  void lose(int rank, std::string why);
  void take_word(int rank, const std::string& text, bool is_interrupted);
  void take_rows(int rank, std::string_view portion);
  void take_point(int rank, const std::string& line);

  std::vector<Share> shares_;  // by rank; that of rank 0 is empty
  std::vector<bool> is_told_;  // by point: known before, or taken
  Take take_;
  std::size_t longest_line_;
  std::optional<Lost> lost_{};
  bool may_end_ = false;
};

}  // namespace penstock
