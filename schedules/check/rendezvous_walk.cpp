// Computes the times of all actions and messages during a walk (walk.hpp). Each rank has a clock: the time at
// which the rank can start its next action. A message starts at the latest time of its causes:
//
//   start = max(causes)      released = start + hold      end = released + latency
//
// If launches take time, the host of each rank also has a clock. An action starts at the later of the two
// clocks:
//
//   host  |L0|L1|L2|L3|            most_ahead = 2: L2, a compute action, waits until the
//   rank     |F0------|F1------|   compute action two before it has ended
//
// Every time is a maximum over the causes, so the order of the walk does not change the times. Tested by
// channel_check_test.cpp and by the engine tests of sim/, which compare with the reference engine.

#include "schedules/check/rendezvous_walk.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/launch_lists.hpp"
#include "schedules/check/launch_walk.hpp"
#include "schedules/check/walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

namespace {

/// The clocks of the hosts of all ranks. The clock of a host shows the end of its latest launch.
class HostClocks {
 public:
  HostClocks(const FlatProgram& flat, Ns launch)
      : launch_(launch), most_ahead_(index(flat.most_ahead)), hosts_(index(flat.rank_count)) {}

  Ns of(std::int32_t rank) const { return hosts_[index(rank)].clock; }

  void launch(std::int32_t rank, bool computes) {
    Host& host = hosts_[index(rank)];
    // The walk calls launched() directly before compute(), so the ends of all earlier compute actions are
    // known.
    if (computes && most_ahead_ > 0 && host.ends.size() >= most_ahead_)
      host.clock = std::max(host.clock, host.ends[host.ends.size() - most_ahead_]);
    host.clock += launch_;
  }

  void computed(std::int32_t rank, Ns end) {
    if (most_ahead_ > 0) hosts_[index(rank)].ends.push_back(end);
  }

 private:
  struct Host {
    Ns clock = 0;
    std::vector<Ns> ends;  // the ends of the rank's compute actions
  };
  Ns launch_;
  std::size_t most_ahead_;
  std::vector<Host> hosts_;
};

/// A receiver of ListWalk's calls that computes ProgramTimes. ListWalk (walk.hpp) calls a member function
/// only after all events on which the call depends have their times.
class TimeKeeper {
 public:
  TimeKeeper(const FlatProgram& flat, const WalkDurations& durations, bool in_launch_order)
      : flat_(flat),
        durations_(durations),
        times_(empty_times(flat)),
        clock_(index(flat.rank_count), 0),
        hosts_(flat, durations.launch),
        held_(in_launch_order ? flat.ops.size() : 0, 0),
        resident_(index(flat.rank_count), 0) {}

  void compute(std::int32_t rank, std::int32_t position, std::span<const std::int32_t> inputs) {
    Ns& clock = clock_[index(rank)];
    for (const std::int32_t message : inputs) clock = std::max(clock, times_.message_end[index(message)]);
    if (flat_.has_launches) clock = std::max(clock, hosts_.of(rank));
    times_.start[index(position)] = clock;
    clock += at(durations_.compute, position);
    times_.end[index(position)] = clock;
    if (flat_.has_launches) hosts_.computed(rank, clock);
  }

  void pass(std::int32_t rank, std::int32_t position) {
    const bool is_leaf = flat_.ops[index(position)] == FlatOp::leaf;
    times_.end[index(position)] = clock_[index(rank)];
    // All actions of an overlapped group start and end together.
    times_.start[index(position)] = is_leaf ? times_.start[index(position) - 1] : clock_[index(rank)];
  }

  void raise(std::int32_t message, const Cause& cause, bool /*last*/) {
    Ns& start = times_.message_start[index(message)];
    start = std::max(start, time_of(cause));
    if (cause.launched) start = std::max(start, hosts_.of(cause.rank));
  }

  void start(std::int32_t message, const Cause& /*last*/) {
    // The walk has already reported all causes of this message, so its start time is final.
    times_.message_end[index(message)] = released(message) + at(durations_.latency, message);
  }

  void wait(std::int32_t rank, std::int32_t message) {
    Ns& clock = clock_[index(rank)];
    clock = std::max(clock, times_.message_end[index(message)]);
  }

  void launch(std::int32_t rank, std::int32_t position) {
    hosts_.launch(rank, flat_.ops[index(position)] == FlatOp::compute);
  }

  void hold(std::int32_t /*rank*/, std::int32_t position, const Cause& cause) {
    Ns& held = held_[index(position)];
    held = std::max(held, time_of(cause));
    if (cause.launched) held = std::max(held, hosts_.of(cause.rank));
  }

  void reside(std::int32_t rank, std::int32_t position) {
    Ns& resident = resident_[index(rank)];
    resident = std::max(resident, held_[index(position)]);
  }

  ProgramTimes times() && { return std::move(times_); }

 private:
  /// Returns entry `i` of `times`, or 0 if the vector is empty.
  static Ns at(const std::vector<Ns>& times, std::int32_t i) { return times.empty() ? 0 : times[index(i)]; }

  /// Returns the time at which a message leaves its queue, so that the next message of the queue can start.
  /// The latency of the message does not delay the next one.
  Ns released(std::int32_t message) const {
    return times_.message_start[index(message)] + at(durations_.hold, message);
  }

  Ns time_of(const Cause& cause) const {
    switch (cause.kind) {
      case CauseKind::listed:
        return 0;
      case CauseKind::clock:
        return clock_[index(cause.rank)];
      case CauseKind::producer:
        return times_.end[index(cause.which)];
      case CauseKind::release:
        return released(cause.which);
      case CauseKind::collective:
        return times_.message_end[index(cause.which)];
      case CauseKind::resident:
        return resident_[index(cause.rank)];
    }
    return 0;
  }

  const FlatProgram& flat_;
  const WalkDurations& durations_;
  ProgramTimes times_;
  std::vector<Ns> clock_;  // time at which each rank can start its next action
  HostClocks hosts_;
  std::vector<Ns> held_;      // latest cause of each launch, by position
  std::vector<Ns> resident_;  // start of the newest resident launch of each rank
};

}  // namespace

tl::expected<ProgramTimes, WalkState> walk(const FlatProgram& flat, const WalkDurations& durations,
                                           const ChannelOptions& channels) {
  TimeKeeper keeper(flat, durations, has_launch_order(channels));
  if (has_launch_order(channels)) {
    if (auto stalled = LaunchWalk<TimeKeeper>(flat, keeper).run())
      return tl::unexpected(WalkState{std::move(stalled->cursor), std::move(stalled->pending)});
    return std::move(keeper).times();
  }
  if (auto stalled = ListWalk<TimeKeeper>(flat, channels, keeper).run())
    return tl::unexpected(*std::move(stalled));
  return std::move(keeper).times();
}

ProgramTimes empty_times(const FlatProgram& flat) {
  return {.start = std::vector<Ns>(flat.ops.size(), 0),
          .end = std::vector<Ns>(flat.ops.size(), 0),
          .message_start = std::vector<Ns>(flat.messages.size(), 0),
          .message_end = std::vector<Ns>(flat.messages.size(), 0)};
}

Ns last_end(const ProgramTimes& times) {
  Ns last = 0;
  for (const Ns end : times.end) last = std::max(last, end);
  for (const Ns end : times.message_end) last = std::max(last, end);
  return last;
}

}  // namespace penstock
