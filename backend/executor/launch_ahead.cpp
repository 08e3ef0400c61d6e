// Lets a rank's thread run ahead of its queue. The thread submits actions without waiting for their end. It
// waits only while the queue has no room for the launches of the next action:
//
//     thread   F0 F1 F2 F3 B0 ...                 drain
//     queue       |F0   |F1   |  RECV  |B0   |          events show what has begun and ended
//
// The assumed number of an action's launches is the largest number that an action of its stage and kind has
// made so far. If no such action has run, or if the number is larger than the queue, the thread first waits
// for all earlier actions and for the messages of the new one. The hardware can then run the action while the
// thread still launches it, so that no launch blocks for ever.
//
// A waiting thread publishes the action that the hardware runs. So the watchdog does not mistake the last
// submitted action for the running one. Tests: tests/backend/standin.

#include "backend/executor/launch_ahead.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <thread>
#include <utility>

#include "backend/executor/executor.hpp"
#include "backend/executor/transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

/// The interval between two looks at the compute queue. It is shorter than the actions of a GPU, so that
/// the queue does not become empty. It is much longer than the time that a look takes. Threads that wait
/// therefore leave the processor to threads that submit work.
constexpr std::chrono::microseconds kBetweenLooks(50);

/// The assumed difference between two timers of one device, in ns. PTX specifies neither the resolution of
/// %globaltimer nor how well a device's processors agree.
constexpr Ns kTick = 2'000;

/// Returns the stage and kind of each action in the compute group at `position`. If a WAIT is at `position`,
/// returns the stage and kind of the WAIT.
LaunchCounts::key_type kinds_of(const FlatProgram& flat, std::int32_t position) {
  const Action& first = flat.actions[index(position)];
  if (flat.ops[index(position)] == FlatOp::wait) return {{first.stage, first.kind}};
  LaunchCounts::key_type kinds;
  for (std::int32_t leaf = position; leaf < flat.group_end(position); ++leaf)
    kinds.emplace_back(flat.actions[index(leaf)].stage, flat.actions[index(leaf)].kind);
  return kinds;
}

/// Returns the start of an action that follows an action with the end `earlier`. A stream runs one action
/// after the other, so a small overlap shows only that two timers differ. If `moment` is before `earlier` by
/// at most one tick, returns `earlier`. Otherwise returns `moment`.
Ns not_before(Ns earlier, Ns moment) {
  return earlier - moment <= kTick ? std::max(earlier, moment) : moment;
}

}  // namespace

LaunchAhead::LaunchAhead(const FlatProgram& flat, std::int32_t rank, ComputeQueue& queue, Progress& progress,
                         std::function<void()> check)
    : flat_(flat),
      queue_(queue),
      progress_(progress),
      check_(std::move(check)),
      first_(flat.rank_begin[index(rank)]) {
  const std::int32_t end = flat.rank_begin[index(rank) + 1];
  positions_.reserve(index(end - first_));
  launches_.reserve(index(end - first_));
  known_.resize(index(end - first_));
  for (std::int32_t p = first_; p < end; ++p) {
    const FlatOp op = flat.ops[index(p)];
    if (op == FlatOp::compute || op == FlatOp::wait)
      known_[index(p - first_)] = &queue.counts()[kinds_of(flat, p)];
  }
}

void LaunchAhead::count_last() {
  const std::int64_t launched = queue_.launches() - std::exchange(counted_, queue_.launches());
  if (positions_.empty()) return;
  launches_.back() = launched;
  unfinished_ += launched;
  std::int64_t& most = *known_[index(positions_.back() - first_)];
  most = std::max(most, launched);
}

void LaunchAhead::begin(std::int32_t position, const std::stop_token& stop) {
  count_last();
  const std::int64_t known = *known_[index(position - first_)];
  const std::int64_t wanted = known == 0 ? queue_.most_launches() : known;
  wait_while([&] { return unfinished_ > 0 && unfinished_ + wanted > queue_.most_launches(); }, stop);
  queue_.begin(given());
  positions_.push_back(position);
  launches_.push_back(0);
  if (wanted < queue_.most_launches()) return;
  wait_while([this] { return ended_ < given() - 1 || !has_begun_; }, stop);
}

void LaunchAhead::end() {
  queue_.end(given() - 1);
  submitted_ = given();
}

void LaunchAhead::drain(const std::stop_token& stop) {
  count_last();
  follow();
  wait_while([this] { return ended_ < given(); }, stop);
}

void LaunchAhead::wait_while(const std::function<bool()>& condition, const std::stop_token& stop) {
  while (condition()) {
    if (stop.stop_requested()) throw Stopped{};
    check_();
    follow();
    if (condition()) std::this_thread::sleep_for(kBetweenLooks);
  }
}

void LaunchAhead::follow() {
  while (ended_ < given()) {
    const std::int32_t position = positions_[index(ended_)];
    // Before the action begins, the rank counts as waiting for the first message that the action needs.
    if (!has_begun_) {
      const std::int32_t wait = flat_.next_wait[index(position)];
      show(position, wait == kNone ? kNone : flat_.message[index(wait)]);
      if (!queue_.has_begun(ended_)) return;
      has_begun_ = true;
    }
    show(position, kNone);
    // While the thread still submits the action, its end is not enqueued, so the queue cannot be asked for
    // it.
    if (ended_ == submitted_ || !queue_.has_ended(ended_)) return;
    has_begun_ = false;
    unfinished_ -= launches_[index(ended_)];
    ++ended_;
  }
}

void LaunchAhead::show(std::int32_t position, std::int32_t message) {
  if (progress_.position == position && progress_.waits_for == message) return;
  progress_.since_ns = std::chrono::steady_clock::now().time_since_epoch().count();
  progress_.position = position;
  progress_.waits_for = message;
}

/// Writes the times of all actions of a rank that its thread runs. A WAIT takes no time, so its start is
/// its end. A RESHARD runs on the host and not in the queue. Its time is the end of the compute action or
/// WAIT before it.
void LaunchAhead::write_times(std::int32_t rank, ProgramTimes& times) const {
  Ns before = 0;
  std::int32_t number = 0;
  for (std::int32_t p = flat_.rank_begin[index(rank)]; p < flat_.rank_begin[index(rank) + 1]; ++p) {
    MessageTime time{.start_ns = before, .end_ns = before};
    if (flat_.ops[index(p)] == FlatOp::compute) {
      time = queue_.time_of(number++);
      time.start_ns = not_before(before, time.start_ns);
      before = time.end_ns = not_before(time.start_ns, time.end_ns);
      for (std::int32_t leaf = p; leaf < flat_.group_end(p); ++leaf) {
        times.start[index(leaf)] = time.start_ns;
        times.end[index(leaf)] = time.end_ns;
      }
    } else if (flat_.ops[index(p)] == FlatOp::wait) {
      before = not_before(before, queue_.time_of(number++).end_ns);
      times.start[index(p)] = times.end[index(p)] = before;
    } else if (flat_.ops[index(p)] == FlatOp::reshard) {
      times.start[index(p)] = times.end[index(p)] = before;
    }
  }
}

}  // namespace penstock
