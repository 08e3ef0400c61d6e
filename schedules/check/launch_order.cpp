// Finds hangs that arise because NCCL can start a rank's communication kernels in the order of their
// launches. Then a RECV that waits in its queue also delays a SEND that was launched after it, although
// the SEND's message is ready:
//
//   rank 0   F0 RECV_B0 RECV_B1 F1 SEND_F1        RECV_B1 waits on its stream for RECV_B0, SEND_F1
//   rank 1   RECV_F0 F0 RECV_F1 F1 B0 SEND_B0     for the start of RECV_B1, and F1 of rank 1 for SEND_F1
//
// Since SEND_B0 comes after F1, both ranks hang.
//
// launch_walk.hpp walks the program with this rule, for times and for hangs. If positions remain, they wait
// for each other in a cycle. channel_check.cpp calls this check for a program that does not hang on its
// channels. Tested by launch_order_test.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/launch_lists.hpp"
#include "schedules/check/launch_walk.hpp"
#include "schedules/check/walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

/// Calls `see` for each message that is directly before another one in a queue of a rank. It passes the
/// rank, the message and the one after it.
template <class See>
void for_each_queued(const FlatProgram& flat, const See& see) {
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(flat.messages.size()); ++id) {
    const FlatMessage& message = flat.messages[index(id)];
    if (message.recv == kNone) continue;
    if (message.next_at_sender != kNone) see(message.from_rank, id, message.next_at_sender);
    if (message.next_at_receiver != kNone) see(message.to_rank, id, message.next_at_receiver);
  }
}

/// Reads the lists of all ranks and builds their LaunchLists.
class LaunchLister {
 public:
  explicit LaunchLister(const FlatProgram& flat)
      : flat_(flat), before_(flat.ops.size(), 0), made_(flat.messages.size(), false) {
    lists_.of_rank.resize(index(flat.rank_count));
    lists_.first_sent.assign(flat.ops.size(), kNone);
    lists_.next_sent.assign(flat.messages.size(), kNone);
  }

  LaunchLists lists() && {
    for_each_queued(flat_, [&](std::int32_t rank, std::int32_t /*id*/, std::int32_t next) {
      ++before_[index(transfer_end_on(flat_.messages[index(next)], rank))];
    });
    count_missing();
    join_sends();
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) list(rank);
    return std::move(lists_);
  }

 private:
  void count_missing() {
    lists_.missing = before_;
    for (std::size_t p = 0; p < flat_.ops.size(); ++p) {
      const FlatOp op = flat_.ops[p];
      const bool is_collective = op == FlatOp::collective && !is_host_copy(flat_.actions[p].kind);
      if (op == FlatOp::send || is_collective || op == FlatOp::barrier) ++lists_.missing[p];
      const bool is_awaited_recv = op == FlatOp::recv && !flat_.messages[index(flat_.message[p])].eager;
      if (flat_.has_launches && (op == FlatOp::send || is_awaited_recv || is_collective)) ++lists_.missing[p];
      if (is_collective && flat_.next_collective[p] != kNone)
        ++lists_.missing[index(flat_.next_collective[p])];
    }
    for (const std::int32_t first : flat_.released_by_consumer) {
      for (std::int32_t id = first; id != kNone; id = flat_.messages[index(id)].next_of_capacity)
        ++lists_.missing[index(flat_.messages[index(id)].recv)];
    }
  }

  /// Connects the messages of each producer to a list. The loop goes from the last SEND to the first, so that
  /// the finished list is in program order.
  void join_sends() {
    for (std::size_t p = flat_.ops.size(); p-- > 0;) {
      if (flat_.ops[p] != FlatOp::send) continue;
      const std::int32_t id = flat_.message[p];
      const std::int32_t producer = flat_.messages[index(id)].producer;
      if (producer == kNone) continue;
      lists_.next_sent[index(id)] = std::exchange(lists_.first_sent[index(producer)], id);
    }
  }

  void list(std::int32_t rank) {
    for (std::int32_t p = flat_.rank_begin[index(rank)]; p < flat_.rank_begin[index(rank) + 1]; ++p) {
      const std::int32_t message = flat_.message[index(p)];
      switch (flat_.ops[index(p)]) {
        case FlatOp::compute:
          for (std::int32_t id = lists_.first_sent[index(p)]; id != kNone; id = lists_.next_sent[index(id)])
            make(rank, id);
          break;
        case FlatOp::send:
          if (flat_.messages[index(message)].producer == kNone) make(rank, message);
          break;
        case FlatOp::recv:
          launch(rank, message);
          break;
        case FlatOp::collective:
          if (!is_host_copy(flat_.actions[index(p)].kind)) lists_.of_rank[index(rank)].push_back(p);
          break;
        case FlatOp::barrier:
          lists_.of_rank[index(rank)].push_back(p);
          break;
        case FlatOp::leaf:
        case FlatOp::reshard:
        case FlatOp::wait:
          break;
      }
    }
  }

  /// Records that the data of a SEND exist. Launches the SEND if all earlier transfers of its queue are
  /// launched. An earlier launch would wait for ever for a RECV that comes later in launch order.
  void make(std::int32_t rank, std::int32_t message) {
    made_[index(message)] = true;
    if (before_[index(flat_.messages[index(message)].first)] == 0) launch(rank, message);
  }

  /// Launches one end of a message on the rank. Then launches the next SENDs of the queue that waited only
  /// for this launch.
  void launch(std::int32_t rank, std::int32_t message) {
    while (message != kNone) {
      const FlatMessage& launched = flat_.messages[index(message)];
      lists_.of_rank[index(rank)].push_back(transfer_end_on(launched, rank));
      const std::int32_t next =
          launched.from_rank == rank ? launched.next_at_sender : launched.next_at_receiver;
      if (next == kNone) return;
      const FlatMessage& behind = flat_.messages[index(next)];
      const bool is_last = --before_[index(transfer_end_on(behind, rank))] == 0;
      message = is_last && behind.from_rank == rank && made_[index(next)] ? next : kNone;
    }
  }

  const FlatProgram& flat_;
  LaunchLists lists_;
  // Number of earlier transfers in the queue of each position that are not launched yet.
  std::vector<std::int32_t> before_;
  std::vector<bool> made_;  // true for each message whose data are ready to be sent
};

/// The waits between actions (named by their positions) after LaunchWalk has stalled, because no rank can
/// continue.
class LaunchWaits {
 public:
  LaunchWaits(const FlatProgram& flat, const LaunchState& state)
      : flat_(flat), state_(state), number_(flat.ops.size()) {
    for (const std::vector<std::int32_t>& launches : state.lists.of_rank) {
      for (std::size_t i = 0; i < launches.size(); ++i) number_[index(launches[i])] = i;
    }
    for_each_queued(flat, [&](std::int32_t rank, std::int32_t id, std::int32_t next) {
      if (state_.pending[index(id)] == 0) return;
      const std::int32_t behind = transfer_end_on(flat_.messages[index(next)], rank);
      before_.emplace_back(behind, transfer_end_on(flat_.messages[index(id)], rank));
    });
    for (std::size_t p = 0; p < flat.next_collective.size(); ++p) {
      if (flat.next_collective[p] != kNone && state_.pending[index(flat.message[p])] > 0)
        before_.emplace_back(flat.next_collective[p], static_cast<std::int32_t>(p));
    }
    for (std::size_t p = 0; p < flat.released_by_consumer.size(); ++p) {
      const auto consumer = static_cast<std::int32_t>(p);
      if (consumer < state_.cursor[index(flat.rank_of(consumer))]) continue;
      for (std::int32_t id = flat.released_by_consumer[p]; id != kNone;
           id = flat.messages[index(id)].next_of_capacity)
        before_.emplace_back(flat.messages[index(id)].recv, consumer);
    }
    std::ranges::sort(before_);
  }

  std::vector<std::int32_t> stalled() const {
    std::vector<std::int32_t> positions;
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      if (state_.cursor[index(rank)] < flat_.rank_begin[index(rank) + 1])
        positions.push_back(state_.cursor[index(rank)]);
    }
    return positions;
  }

  /// Returns the positions that `position` waits for. There are five kinds of waits, and the first kind that
  /// applies is returned. The kinds are, in this order: an earlier position of the rank, the other ends of a
  /// resident launch, an earlier launch, earlier messages in the queues, the rank's own computation.
  std::vector<std::int32_t> waits_for(std::int32_t position) const {
    const std::int32_t rank = flat_.rank_of(position);
    const std::int32_t at = state_.cursor[index(rank)];
    const FlatOp op = flat_.ops[index(position)];
    if (op == FlatOp::compute || op == FlatOp::wait)
      return position > at ? std::vector{at} : missing_messages(position);
    if (is_resident(rank, position)) return other_ends(position);
    const std::int32_t head = state_.lists.of_rank[index(rank)][state_.resident[index(rank)]];
    if (head != position) return {head};
    std::vector<std::int32_t> waits;
    const auto [first, last] = std::ranges::equal_range(before_, position, {}, &Wait::first);
    for (auto wait = first; wait != last; ++wait) waits.push_back(wait->second);
    if (waits.empty()) waits.push_back(at);  // the producer of its data, or the position before it
    return waits;
  }

  /// Returns the text to put after "A waits for B" if B is an earlier launch on A's own rank. The text says
  /// whether B is resident and occupies the queue, or only comes earlier in launch order. Returns an empty
  /// text otherwise.
  std::string_view words(std::int32_t position, std::int32_t next) const {
    const std::int32_t rank = flat_.rank_of(position);
    const auto is_launched = [&](std::int32_t p) {
      return flat_.ops[index(p)] != FlatOp::compute && flat_.ops[index(p)] != FlatOp::wait;
    };
    const bool both_launched = is_launched(position) && is_launched(next);
    if (!both_launched || flat_.rank_of(next) != rank || is_resident(rank, position)) return "";
    return is_resident(rank, next) ? ", before it in its queue" : ", launched before it";
  }

 private:
  using Wait = std::pair<std::int32_t, std::int32_t>;  // a position, and one that must end before it

  bool is_resident(std::int32_t rank, std::int32_t position) const {
    return number_[index(position)] < state_.resident[index(rank)];
  }

  std::vector<std::int32_t> other_ends(std::int32_t position) const {
    const FlatMessage& message = flat_.messages[index(flat_.message[index(position)])];
    if (message.recv != kNone) return {position == message.recv ? message.first : message.recv};
    std::vector<std::int32_t> late;
    for (std::int32_t m = message.first; m != kNone; m = flat_.next_member[index(m)]) {
      if (!is_resident(flat_.rank_of(m), m)) late.push_back(m);
    }
    return late;
  }

  std::vector<std::int32_t> missing_messages(std::int32_t position) const {
    std::vector<std::int32_t> missing;
    for (std::int32_t w = flat_.next_wait[index(position)]; w != kNone; w = flat_.next_wait[index(w)]) {
      if (state_.pending[index(flat_.message[index(w)])] > 0) missing.push_back(w);
    }
    return missing;
  }

  const FlatProgram& flat_;
  const LaunchState& state_;
  std::vector<std::size_t> number_;  // number of the launch on its rank, for each position of a launch
  std::vector<Wait> before_;         // the waits of launches in queues and for capacity, sorted
};

/// A receiver of LaunchWalk's calls that ignores them.
struct SilentLaunches {
  void compute(std::int32_t /*rank*/, std::int32_t /*position*/, std::span<const std::int32_t> /*messages*/) {
  }
  void pass(std::int32_t /*rank*/, std::int32_t /*position*/) {}
  void hold(std::int32_t /*rank*/, std::int32_t /*position*/, const Cause& /*cause*/) {}
  void reside(std::int32_t /*rank*/, std::int32_t /*position*/) {}
  void raise(std::int32_t /*message*/, const Cause& /*cause*/, bool /*last*/) {}
  void start(std::int32_t /*message*/, const Cause& /*last*/) {}
  void wait(std::int32_t /*rank*/, std::int32_t /*message*/) {}
  void launch(std::int32_t /*rank*/, std::int32_t /*position*/) {}
};

}  // namespace

LaunchLists launch_lists(const FlatProgram& flat) { return LaunchLister(flat).lists(); }

std::optional<Hang> find_launch_hang(const FlatProgram& flat, const ChannelOptions& channels) {
  if (!has_launch_order(channels)) return std::nullopt;
  SilentLaunches silent;
  const auto stalled = LaunchWalk<SilentLaunches>(flat, silent).run();
  if (!stalled) return std::nullopt;
  const LaunchWaits waits(flat, *stalled);
  return hang_of_cycle(
      flat, waits.stalled(), [&](std::int32_t position) { return waits.waits_for(position); }, channels,
      [&](std::int32_t position, std::int32_t next) { return waits.words(position, next); });
}

}  // namespace penstock
