// The sink of a walk that keeps times. A clock a rank says when what program order has passed was over; a
// message starts at the latest of its causes:
//
//   start = max(causes)      released = start + hold      end = released + latency
//
// With launches a rank has a second clock, its host's, which no device waits for unless it is the later one:
//
//   host  |L0|L1|L2|L3|            most_ahead = 2: L2, a compute action, waits for the end of the one
//   rank     |F0------|F1------|   two before
//
// Times are maxima over what each action waited for, so the order of the walk does not change them.

#include "schedules/check/rendezvous_walk.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/check/walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

/// When the hosts have launched what they have come to.
class HostClocks {
 public:
  HostClocks(const FlatProgram& flat, Ns launch)
      : launch_(launch), most_ahead_(index(flat.most_ahead)), hosts_(index(flat.rank_count)) {}

  Ns of(std::int32_t rank) const { return hosts_[index(rank)].clock; }

  void launch(std::int32_t rank, bool computes) {
    Host& host = hosts_[index(rank)];
    // The ends of all earlier ones are there: this is told right before the action's own compute().
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
    std::vector<Ns> ends;  // of the compute actions of its rank
  };
  Ns launch_;
  std::size_t most_ahead_;
  std::vector<Host> hosts_;
};

/// Fills ProgramTimes as the walk tells what happens (walk.hpp says when each member is called). Whatever a
/// call refers to has its times by then.
class TimeKeeper {
 public:
  TimeKeeper(const FlatProgram& flat, const WalkDurations& durations)
      : flat_(flat),
        durations_(durations),
        times_(empty_times(flat)),
        clock_(index(flat.rank_count), 0),
        hosts_(flat, durations.launch) {}

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
    // A leaf starts and ends with its group.
    times_.start[index(position)] = is_leaf ? times_.start[index(position) - 1] : clock_[index(rank)];
  }

  void raise(std::int32_t message, const Cause& cause, bool /*last*/) {
    Ns& start = times_.message_start[index(message)];
    start = std::max(start, time_of(cause));
    if (cause.launched) start = std::max(start, hosts_.of(cause.rank));
  }

  void start(std::int32_t message, const Cause& /*last*/) {
    // All causes have been told, so that the start is final.
    times_.message_end[index(message)] = released(message) + at(durations_.latency, message);
  }

  void wait(std::int32_t rank, std::int32_t message) {
    Ns& clock = clock_[index(rank)];
    clock = std::max(clock, times_.message_end[index(message)]);
  }

  void launch(std::int32_t rank, std::int32_t position) {
    hosts_.launch(rank, flat_.ops[index(position)] == FlatOp::compute);
  }

  ProgramTimes times() && { return std::move(times_); }

 private:
  /// An empty vector stands for 0 everywhere.
  static Ns at(const std::vector<Ns>& times, std::int32_t i) { return times.empty() ? 0 : times[index(i)]; }

  /// When the next one of its queues may start: latency holds nothing.
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
    }
    return 0;
  }

  const FlatProgram& flat_;
  const WalkDurations& durations_;
  ProgramTimes times_;
  std::vector<Ns> clock_;  // by rank: end of what program order has passed
  HostClocks hosts_;
};

}  // namespace

tl::expected<ProgramTimes, WalkState> walk(const FlatProgram& flat, const WalkDurations& durations,
                                           const ChannelOptions& channels) {
  TimeKeeper keeper(flat, durations);
  if (auto stalled = ListWalk<TimeKeeper>(flat, channels, keeper).run())
    return tl::unexpected(*std::move(stalled));
  return std::move(keeper).times();
}

}  // namespace penstock
