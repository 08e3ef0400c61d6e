#pragma once
// A meter that adds up the figures of one rank while its actions come in list order. All code that times a
// program uses a meter, so that each figure of a rank is computed in one place:
//
//   spans of a run or a measurement      figures_of() (metrics.cpp)
//   actions of a walk as it places them  sim/engines/streamed_walk.cpp
//
// A walk that jumps over repetitions advances the meter with show(), which states how each member grows.
// tests/sim/streamed_run_test.cpp compares the two.

#include <algorithm>

#include "report/result/metrics.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

class RankMeter {
 public:
  /// Adds a compute action, or an overlapped group, which is one action. `covered_ns(from, to)` returns how
  /// much of that time is covered by the messages and collectives for which the action has waited. It is
  /// called where the rank was idle before.
  template <class Covered>
  void compute(Ns start_ns, Ns end_ns, const Covered& covered_ns) {
    // Transfers beside compute do not count, and neither does idle time in which no message is under way.
    if (start_ns > last_ns_) exposed_ns_ += covered_ns(last_ns_, start_ns);
    busy_ns_ += end_ns - start_ns;
    first_ns_ = has_computed_ ? std::min(first_ns_, start_ns) : start_ns;
    last_ns_ = std::max(last_ns_, end_ns);
    has_computed_ = true;
  }
  void send(Bytes bytes) { sent_bytes_ += bytes; }
  void receive(Bytes bytes) { received_bytes_ += bytes; }
  /// Adds a collective, in whose ring each member sends as much as it receives.
  void exchange(Bytes bytes) {
    send(bytes);
    receive(bytes);
  }

  /// Returns the figures so far: those of RankFigures that follow from what was added.
  RankFigures figures() const {
    RankFigures figures;
    figures.report.busy_ns = busy_ns_;
    figures.report.exposed_communication_ns = exposed_ns_;
    figures.report.sent_bytes = sent_bytes_;
    figures.report.received_bytes = received_bytes_;
    figures.first_ns = first_ns_;
    figures.last_ns = last_ns_;
    return figures;
  }

  /// Shows the members to a visitor of states (sim/engines/kept_state.hpp): a time, or a number that grows by
  /// the same amount in each repetition. The first start does not change, so it is left out.
  template <class State>
  void show(State& state) {
    state.time(last_ns_);
    state.count(busy_ns_);
    state.count(exposed_ns_);
    state.count(sent_bytes_);
    state.count(received_bytes_);
  }

 private:
  bool has_computed_ = false;
  Ns first_ns_ = 0;
  Ns last_ns_ = 0;  // the end of the last action, from which the rank is idle
  Ns busy_ns_ = 0;
  Ns exposed_ns_ = 0;
  Bytes sent_bytes_ = 0;
  Bytes received_bytes_ = 0;
};

}  // namespace penstock
