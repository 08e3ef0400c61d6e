#pragma once
// Looks for two moments of a streamed walk after which the same happens. Used by streamed_walk.cpp.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"
#include "sim/engines/kept_state.hpp"

namespace penstock {

/// By how many repetitions a cursor has moved.
struct CursorMove {
  std::int32_t inner = 0;
  std::int32_t outer = 0;
};

/// A jump over `times` times what lies between a kept moment and now.
struct Jump {
  const KeptState* kept = nullptr;  ///< of that moment
  StateShift shift;                 ///< from then to now
  std::vector<CursorMove> moves;    ///< by rank
  std::int64_t actions = 0;         ///< in between
  std::int64_t times = 0;
};

/// How a cursor has come from one place to another: by whole repetitions of one loop, each of which moves its
/// microbatches by the same step. Nothing where it has not.
struct CursorProgress {
  CursorMove move;
  std::int32_t units = 0;  ///< by how much its microbatches have moved
  std::int64_t left = 0;   ///< how often it can go on like that before it comes into its last repetition
};
std::optional<CursorProgress> progress(const LoopCursor& before, const LoopCursor& now);

/// Keeps one earlier moment, replaced after powers of two (Brent, "An improved Monte Carlo factorization
/// algorithm", BIT 1980), so that any period is found, and looks at a few clocks before everything.
class RepeatSearch {
 public:
  /// Once a moment. A walk has rank_count(), clock_ns(rank), cursor(rank), actions(), routes_repeat(units),
  /// settle_all() and show(state); `ready` is what else must be the same. The jump is good up to the next
  /// look.
  template <class Walk>
  std::optional<Jump> look(Walk& walk, const std::vector<std::uint64_t>& ready) {
    ++moment_;
    if (is_kept_ && looks_alike(walk)) {
      std::optional<Jump> jump = compare(walk, ready);
      if (jump) {
        start_anew();
        return jump;
      }
    }
    if (moment_ >= next_to_keep_) keep(walk, ready);
    return std::nullopt;
  }

 private:
  static constexpr std::int32_t kLooks = 8;

  template <class Walk>
  static std::int32_t sample(const Walk& walk, std::int32_t i) {
    return static_cast<std::int32_t>(std::int64_t{i} * (walk.rank_count() - 1) / (kLooks - 1));
  }

  template <class Walk>
  bool looks_alike(const Walk& walk) const {
    const Ns moved = walk.clock_ns(0) - clocks_[0];
    for (std::int32_t i = 0; i < kLooks; ++i) {
      const std::int32_t rank = sample(walk, i);
      if (walk.clock_ns(rank) - clocks_[index(i)] != moved) return false;
      if (walk.cursor(rank).place() != cursors_[index(rank)].place()) return false;
    }
    return true;
  }

  template <class Walk>
  void keep(Walk& walk, const std::vector<std::uint64_t>& ready) {
    walk.settle_all();
    KeepState state;
    walk.show(state);
    kept_ = std::move(state).kept();
    cursors_.clear();
    for (std::int32_t rank = 0; rank < walk.rank_count(); ++rank) cursors_.push_back(walk.cursor(rank));
    clocks_.clear();
    for (std::int32_t i = 0; i < kLooks; ++i) clocks_.push_back(walk.clock_ns(sample(walk, i)));
    ready_ = ready;
    actions_ = walk.actions();
    is_kept_ = true;
    next_to_keep_ = 2 * moment_;
  }

  template <class Walk>
  std::optional<Jump> compare(Walk& walk, const std::vector<std::uint64_t>& ready) {
    if (ready != ready_) return std::nullopt;
    auto jump = cursors_moved(walk);
    if (!jump || !walk.routes_repeat(jump->shift.units)) return std::nullopt;
    walk.settle_all();
    CompareState state(kept_, jump->shift);
    walk.show(state);
    if (!state.alike()) return std::nullopt;
    jump->kept = &kept_;
    jump->actions = walk.actions() - actions_;
    return jump;
  }

  template <class Walk>
  std::optional<Jump> cursors_moved(const Walk& walk) const {
    Jump jump;
    jump.shift.time_ns = walk.clock_ns(0) - clocks_[0];
    for (std::int32_t rank = 0; rank < walk.rank_count(); ++rank) {
      const auto moved = progress(cursors_[index(rank)], walk.cursor(rank));
      if (!moved || (rank > 0 && moved->units != jump.shift.units)) return std::nullopt;
      jump.shift.units = moved->units;
      jump.times = rank == 0 ? moved->left : std::min(jump.times, moved->left);
      jump.moves.push_back(moved->move);
    }
    if (jump.times <= 0) return std::nullopt;
    return jump;
  }

  void start_anew() {
    is_kept_ = false;
    moment_ = 0;
    next_to_keep_ = 1;
  }

  bool is_kept_ = false;
  std::int64_t moment_ = 0;
  std::int64_t next_to_keep_ = 1;
  KeptState kept_;
  std::vector<LoopCursor> cursors_;
  std::vector<Ns> clocks_;  // of a few ranks
  std::vector<std::uint64_t> ready_;
  std::int64_t actions_ = 0;
};

}  // namespace penstock
