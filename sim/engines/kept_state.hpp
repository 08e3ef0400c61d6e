#pragma once
// The state of a streamed walk at one moment, to be held against a later one (streamed_walk.cpp). Whoever has
// state shows it field by field to one of three visitors, always in the same order:
//
//   same    what must be equal: places, numbers of messages        time    a live time
//   unit    a microbatch                                           count   what grows evenly: busy time
//                                                                  held    the same: bytes that are held
//
// Two moments are alike when all that must be equal is, all live times have moved by one amount, and all
// microbatches by another. Then everything repeats, and `AdvanceState` moves the later moment on by n times
// what lies between the two.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

using KeptState = std::vector<std::int64_t>;

/// By how much one moment is later than another.
struct StateShift {
  Ns time_ns = 0;
  std::int32_t units = 0;
};

/// Writes a state down.
class KeepState {
 public:
  void same(std::int64_t value) { kept_.push_back(value); }
  /// Like same(); true where the fields that depend on it are to be shown.
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

/// Compares a state with a kept one.
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
  /// False as soon as something differs.
  bool goes_on() const { return alike_; }

  /// True when more or less is held than was kept, so that peaks may still rise.
  bool grows() const { return grows_; }
  /// True when the states are alike, to the last field.
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

/// Moves a state on. Requires that it is like the kept one.
class AdvanceState {
 public:
  AdvanceState(const KeptState& kept, const StateShift& shift, std::int64_t times)
      : kept_(kept), shift_(shift), times_(times) {}

  void same(std::int64_t /*value*/) { ++next_; }
  /// As it was when the states were compared: times that have been moved by now do not count.
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

/// Shows a time that matters only where it is not before `now`.
template <class State>
void show_unless_past(State& state, Ns& time, Ns now) {
  if (state.flag(time >= now)) state.time(time);
}

}  // namespace penstock
