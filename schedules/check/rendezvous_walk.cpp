// The sink of a walk that keeps times. A clock a rank says when what program order has passed was over; a
// message starts at the latest of its causes:
//
//   start = max(causes)      released = start + hold      end = released + latency
//
// Times are maxima over what each action waited for, so the order of the walk does not change them.

#include "schedules/check/rendezvous_walk.hpp"

#include <algorithm>
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

class TimeKeeper {
 public:
  TimeKeeper(const FlatProgram& flat, const WalkDurations& durations)
      : flat_(flat), durations_(durations), times_(empty_times(flat)), clock_(index(flat.rank_count), 0) {}

  void compute(std::int32_t rank, std::int32_t position, std::span<const std::int32_t> inputs) {
    Ns& clock = clock_[index(rank)];
    for (const std::int32_t message : inputs) clock = std::max(clock, times_.message_end[index(message)]);
    times_.start[index(position)] = clock;
    clock += at(durations_.compute, position);
    times_.end[index(position)] = clock;
  }

  void pass(std::int32_t rank, std::int32_t position) {
    const bool is_leaf = flat_.ops[index(position)] == FlatOp::leaf;
    times_.end[index(position)] = clock_[index(rank)];
    times_.start[index(position)] = is_leaf ? times_.start[index(position) - 1] : clock_[index(rank)];
  }

  void raise(std::int32_t message, const Cause& cause, bool /*last*/) {
    Ns& start = times_.message_start[index(message)];
    start = std::max(start, time_of(cause));
  }

  void start(std::int32_t message) {
    times_.message_end[index(message)] = released(message) + at(durations_.latency, message);
  }

  void wait(std::int32_t rank, std::int32_t message) {
    Ns& clock = clock_[index(rank)];
    clock = std::max(clock, times_.message_end[index(message)]);
  }

  ProgramTimes times() && { return std::move(times_); }

 private:
  static Ns at(const std::vector<Ns>& times, std::int32_t i) { return times.empty() ? 0 : times[index(i)]; }

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
