#pragma once
// The state of a streamed walk (streamed_walk.cpp) at one moment, for comparison with a later one. An object
// with state shows its fields, always in the same order, to one of three visitors:
//
//   same    a value that must be equal: a position, a number of messages
//   time    a time that still affects the walk
//   unit    a microbatch
//   count   a value that grows evenly, such as busy time
//   held    a number of held bytes; it grows evenly as well
//
// Two moments are alike if every `same` is equal, all times differ by one amount, and all microbatches by
// another amount. Then everything repeats. `AdvanceState` adds n times the difference of the two moments to
// the later one.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

using KeptState = std::vector<std::int64_t>;

/// The difference between a later moment and an earlier one.
struct StateShift {
  Ns time_ns = 0;
  std::int32_t units = 0;
};

/// A visitor that records a state.
class KeepState {
 public:
  void same(std::int64_t value) { kept_.push_back(value); }
  /// Like same(). Returns true if the fields that depend on the value must be shown.
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

/// A visitor that compares a state with a recorded one.
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
  /// Returns false as soon as a field differs.
  bool goes_on() const { return alike_; }

  /// Returns true if the bytes differ from the recorded ones, so that peaks may still rise.
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

/// A visitor that moves a state forward by whole repetitions. Requires a state that is like the recorded one.
class AdvanceState {
 public:
  AdvanceState(const KeptState& kept, const StateShift& shift, std::int64_t times)
      : kept_(kept), shift_(shift), times_(times) {}

  void same(std::int64_t /*value*/) { ++next_; }
  /// Returns the recorded value. The present value may differ, because AdvanceState has already moved the
  /// times on which it depends.
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

/// Shows a time, unless it is before `now`. Earlier times have no effect, so they count as equal.
template <class State>
void show_unless_past(State& state, Ns& time, Ns now) {
  if (state.flag(time >= now)) state.time(time);
}

}  // namespace penstock
