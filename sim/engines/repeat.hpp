#pragma once
// Searches a streamed walk (streamed_walk.cpp) for two moments after which the same actions happen at the
// same distances in time. The walk passes its state to one of three visitors, field by field and always in
// the same order. The name of the function that receives a field states how the field may change:
//
//   same    what must be equal: places, numbers of messages        time    a live time
//   unit    a microbatch                                           count   what grows evenly: busy time
//                                                                  held    like count: bytes that are held
//
// Two moments are alike if all `same` fields are equal, all times have moved by one amount, and all
// microbatches have moved by one number. The walk then repeats what it did between them. To jump over n
// repetitions, `AdvanceState` adds n times the difference of the two moments to the later one.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

using KeptState = std::vector<std::int64_t>;

/// The difference between two moments of a walk, which processes the lists of all ranks in time order. It
/// says how much time and how many microbatches the later moment is ahead.
struct StateShift {
  Ns time_ns = 0;
  std::int32_t units = 0;
};

/// A visitor that records the state of a walk, field by field. The recorded state is later compared with the
/// state at other moments.
class KeepState {
 public:
  void same(std::int64_t value) { kept_.push_back(value); }
  /// Records a value like same(), and returns the value. Some fields of the state exist only if the flag is
  /// true, and the caller must then pass these fields, too.
  bool flag(bool value) {
    same(value ? 1 : 0);
    return value;
  }
  void time(Ns value) { same(value); }
  void unit(std::int32_t value) { same(value); }
  void count(std::int64_t value) { same(value); }
  void held(std::int64_t value) { same(value); }
  static bool goes_on() { return true; }

  KeptState kept() && { return std::move(kept_); }

 private:
  KeptState kept_;
};

/// A visitor that compares the state of a walk with a recorded state, field by field.
class CompareState {
 public:
  CompareState(const KeptState& kept, const StateShift& shift) : kept_(kept), shift_(shift) {}

  void same(std::int64_t value) { expect(value); }
  bool flag(bool value) {
    expect(value ? 1 : 0);
    return value;
  }
  void time(Ns value) { expect(value - shift_.time_ns); }
  void unit(std::int32_t value) { expect(std::int64_t{value} - shift_.units); }
  void count(std::int64_t /*value*/) { ++next_; }
  void held(std::int64_t value) {
    grows_ = grows_ || next_ >= kept_.size() || kept_[next_] != value;
    ++next_;
  }
  /// Returns false if a field has differed, so that the caller need not pass the other fields.
  bool goes_on() const { return alike_; }

  /// Returns true if amounts of memory differ from the recorded ones. Peaks may then still rise.
  bool grows() const { return grows_; }
  /// Returns true if the states are alike in all fields.
  bool alike() const { return alike_ && next_ == kept_.size(); }

 private:
  void expect(std::int64_t value) {
    alike_ = alike_ && next_ < kept_.size() && kept_[next_] == value;
    ++next_;
  }

  const KeptState& kept_;
  StateShift shift_;
  std::size_t next_ = 0;
  bool alike_ = true;
  bool grows_ = false;
};

/// A visitor that moves the state of a walk forward by `times` repetitions. CompareState must have found that
/// this state repeats the recorded one.
class AdvanceState {
 public:
  AdvanceState(const KeptState& kept, const StateShift& shift, std::int64_t times)
      : kept_(kept), shift_(shift), times_(times) {}

  void same(std::int64_t /*value*/) { ++next_; }
  /// Returns the recorded value. The current value must not be used, because AdvanceState may already have
  /// changed times on which it depends.
  bool flag(bool /*value*/) { return kept_[next_++] != 0; }
  void time(Ns& value) {
    value += times_ * shift_.time_ns;
    ++next_;
  }
  void unit(std::int32_t& value) {
    value += static_cast<std::int32_t>(times_ * shift_.units);
    ++next_;
  }
  void held(std::int64_t& value) { count(value); }
  void count(std::int64_t& value) { value += times_ * (value - kept_[next_++]); }
  static bool goes_on() { return true; }

 private:
  const KeptState& kept_;
  StateShift shift_;
  std::int64_t times_;
  std::size_t next_ = 0;
};

/// Passes a time to the visitor if it is not before `now`. A time before `now` has no more effect on the run,
/// so all such times count as equal.
template <class State>
void show_unless_past(State& state, Ns& time, Ns now) {
  if (state.flag(time >= now)) state.time(time);
}

/// The numbers of repetitions by which a cursor (a position in nested loops of actions) has moved: in its own
/// loop, and in the loop around it.
struct CursorMove {
  std::int32_t inner = 0;
  std::int32_t outer = 0;
};

/// A jump over repetitions, which a walk then need not process one by one. The jump adds to the state `times`
/// times the difference between the current moment and a recorded one.
struct Jump {
  const KeptState* kept = nullptr;  ///< the state at the recorded moment
  StateShift shift;                 ///< the difference between the two moments
  std::vector<CursorMove> moves;    ///< one movement for each rank
  std::int64_t actions = 0;         ///< the number of actions between the two moments
  std::int64_t times = 0;
};

/// The movement of a cursor (a position in nested loops of actions) by whole repetitions of one loop. Each
/// repetition increases the microbatches by the same step.
struct CursorProgress {
  CursorMove move;
  std::int32_t units = 0;  ///< increase of the cursor's microbatches
  std::int64_t left = 0;   ///< number of further moves of this size before the loop's last repetition
};
std::optional<CursorProgress> progress(const LoopCursor& before, const LoopCursor& now);

/// A search for repetitions of a walk. It compares the current moment with a few recorded ones. The number of
/// each recorded moment is 5/4 times that of the one before. The idea is Brent's (BIT 1980, "An improved
/// Monte Carlo factorization algorithm"), whose algorithm records only one moment, at powers of two. To save
/// time, the search compares a few clocks before the whole state.
class RepeatSearch {
 public:
  /// Compares the current moment with the recorded ones. The caller calls it once at each moment. `ready` is
  /// further state that must be equal. Returns the jump that is possible, or nothing. The jump is valid until
  /// the next call. A walk must have these members:
  ///
  ///   rank_count() clock_ns(rank) cursor(rank) actions() routes_repeat(units) settle_all() show(state)
  ///   reads_ahead()    true if the walk reads its lists beyond the next group
  template <class Walk>
  std::optional<Jump> look(Walk& walk, const std::vector<std::uint64_t>& ready) {
    ++moment_;
    for (std::size_t back = 1; back <= std::min(kept_, kMoments); ++back) {
      const Moment& before = moments_[(kept_ - back) % kMoments];
      if (!looks_alike(walk, before)) continue;
      std::optional<Jump> jump = compare(walk, before, ready);
      if (!jump) continue;
      start_anew();
      return jump;
    }
    if (moment_ >= next_to_keep_) keep(walk, ready);
    return std::nullopt;
  }

  /// Returns the number of actions that had run at the last recorded moment.
  std::int64_t kept_actions() const { return kept_ == 0 ? 0 : moments_[(kept_ - 1) % kMoments].actions; }

 private:
  // The number of ranks whose clocks are compared before the whole state.
  static constexpr std::int32_t kLooks = 8;
  // The number of moments that are kept. Each moment has 5/4 as many actions as the one before, so the oldest
  // of six has about a third as many as the newest.
  static constexpr std::size_t kMoments = 6;

  struct Moment {
    KeptState state;
    std::vector<LoopCursor> cursors;  // one for each rank, like `clocks`
    std::vector<Ns> clocks;
    std::vector<std::uint64_t> ready;
    std::int64_t actions = 0;
  };

  template <class Walk>
  static std::int32_t sample(const Walk& walk, std::int32_t i) {
    return static_cast<std::int32_t>(std::int64_t{i} * (walk.rank_count() - 1) / (kLooks - 1));
  }

  template <class Walk>
  static bool looks_alike(const Walk& walk, const Moment& before) {
    const Ns moved = walk.clock_ns(0) - before.clocks[0];
    for (std::int32_t i = 0; i < kLooks; ++i) {
      const std::int32_t rank = sample(walk, i);
      if (walk.clock_ns(rank) - before.clocks[index(rank)] != moved) return false;
      if (walk.cursor(rank).place() != before.cursors[index(rank)].place()) return false;
    }
    return true;
  }

  template <class Walk>
  void keep(Walk& walk, const std::vector<std::uint64_t>& ready) {
    walk.settle_all();
    KeepState state;
    walk.show(state);
    Moment& now = moments_[kept_++ % kMoments];
    now.state = std::move(state).kept();
    now.cursors.clear();
    now.clocks.clear();
    for (std::int32_t rank = 0; rank < walk.rank_count(); ++rank) {
      now.cursors.push_back(walk.cursor(rank));
      now.clocks.push_back(walk.clock_ns(rank));
    }
    now.ready = ready;
    now.actions = walk.actions();
    next_to_keep_ = moment_ + moment_ / 4 + 1;
  }

  template <class Walk>
  static std::optional<Jump> compare(Walk& walk, const Moment& before,
                                     const std::vector<std::uint64_t>& ready) {
    if (ready != before.ready) return std::nullopt;
    if (!clocks_moved(walk, before)) return std::nullopt;
    auto jump = cursors_moved(walk, before);
    if (!jump || !walk.routes_repeat(jump->shift.units)) return std::nullopt;
    walk.settle_all();
    CompareState state(before.state, jump->shift);
    walk.show(state);
    if (!state.alike()) return std::nullopt;
    if (state.grows() || walk.reads_ahead()) --jump->times;
    if (jump->times <= 0) return std::nullopt;
    jump->kept = &before.state;
    jump->actions = walk.actions() - before.actions;
    return jump;
  }

  /// Returns true if the clocks of all ranks have moved by the same amount since the moment `before`.
  template <class Walk>
  static bool clocks_moved(const Walk& walk, const Moment& before) {
    const Ns moved = walk.clock_ns(0) - before.clocks[0];
    for (std::int32_t rank = 1; rank < walk.rank_count(); ++rank) {
      if (walk.clock_ns(rank) - before.clocks[index(rank)] != moved) return false;
    }
    return true;
  }

  template <class Walk>
  static std::optional<Jump> cursors_moved(const Walk& walk, const Moment& before) {
    Jump jump;
    jump.shift.time_ns = walk.clock_ns(0) - before.clocks[0];
    for (std::int32_t rank = 0; rank < walk.rank_count(); ++rank) {
      const auto moved = progress(before.cursors[index(rank)], walk.cursor(rank));
      if (!moved || (rank > 0 && moved->units != jump.shift.units)) return std::nullopt;
      jump.shift.units = moved->units;
      jump.times = rank == 0 ? moved->left : std::min(jump.times, moved->left);
      jump.moves.push_back(moved->move);
    }
    return jump;
  }

  void start_anew() {
    // After a jump, the recorded moments cannot be compared with the new state any more.
    kept_ = 0;
    moment_ = 0;
    next_to_keep_ = 1;
  }

  std::int64_t moment_ = 0;
  std::int64_t next_to_keep_ = 1;
  std::array<Moment, kMoments> moments_;
  // The number of moments that were recorded since the last jump. Moment k is at index k mod kMoments.
  std::size_t kept_ = 0;
};

}  // namespace penstock
