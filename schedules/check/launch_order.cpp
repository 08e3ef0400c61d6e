// A RECV that stands behind another of its queue has not started; a SEND that was launched behind it cannot
// start, though its message is made:
//
//   rank 0   F0 RECV_B0 RECV_B1 F1 SEND_F1        RECV_B1 waits on its stream for RECV_B0, SEND_F1 for
//   rank 1   RECV_F0 F0 RECV_F1 F1 B0 SEND_B0     its start, B0 on rank 1 for F1: nobody gets on
//
// All launches are known beforehand; what can start, start and end is repeated until nothing changes. What is
// left waits in a cycle.

#include "schedules/check/launch_order.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/wait_cycle.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

/// One rank's part of a message or collective.
struct Launch {
  std::int32_t message = kNone;
  std::int32_t position = kNone;          // of the action that it belongs to
  std::vector<std::int32_t> before = {};  // in its queues on this rank: messages
};

/// What all ranks launch, in their orders.
class Launches {
 public:
  explicit Launches(const FlatProgram& flat)
      : flat_(flat), of_rank_(index(flat.rank_count)), sent_by_(flat.ops.size()) {
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(flat.messages.size()); ++id) {
      const FlatMessage& message = flat.messages[index(id)];
      if (message.recv == kNone) continue;
      // A SEND is launched behind what makes it, wherever in the list it stands.
      sent_by_[index(message.producer)].push_back(id);
      if (message.next_at_sender != kNone) before_[{message.from_rank, message.next_at_sender}].push_back(id);
      if (message.next_at_receiver != kNone)
        before_[{message.to_rank, message.next_at_receiver}].push_back(id);
    }
    for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) list(rank);
  }

  const std::vector<Launch>& of(std::int32_t rank) const { return of_rank_[index(rank)]; }

  std::size_t members(std::int32_t message) const {
    const FlatMessage& flat = flat_.messages[index(message)];
    return flat.recv != kNone ? 2 : group_of(message).size();
  }

 private:
  /// The ranks that take part, ascending: equal for all collectives of one group.
  std::vector<std::int32_t> group_of(std::int32_t message) const {
    std::vector<std::int32_t> members;
    for (std::int32_t m = flat_.messages[index(message)].first; m != kNone; m = flat_.next_member[index(m)])
      members.push_back(flat_.rank_of(m));
    std::ranges::sort(members);
    return members;
  }

  /// Writes down what the rank launches, in order: a RECV or a collective where it stands, a SEND when it
  /// has been made and what is before it in its queue has been launched. One that went ahead of a RECV in
  /// front of it would wait for it for ever.
  void list(std::int32_t rank) {
    std::vector<bool> made(flat_.messages.size());
    std::vector<bool> launched(flat_.messages.size());
    for (std::int32_t p = flat_.rank_begin[index(rank)]; p < flat_.rank_begin[index(rank) + 1]; ++p) {
      const FlatOp op = flat_.ops[index(p)];
      const std::int32_t message = flat_.message[index(p)];
      if (op == FlatOp::recv) {
        add(rank, message, p);
        launched[index(message)] = true;
        launch_sends(rank, next_of(rank, message), made, launched);
      }
      if (op == FlatOp::collective || op == FlatOp::barrier) add_collective(rank, message, p);
      for (const std::int32_t id : sent_by_[index(p)]) made[index(id)] = true;
      for (const std::int32_t id : sent_by_[index(p)]) launch_sends(rank, id, made, launched);
    }
  }

  std::int32_t next_of(std::int32_t rank, std::int32_t message) const {
    const FlatMessage& flat = flat_.messages[index(message)];
    return flat.from_rank == rank ? flat.next_at_sender : flat.next_at_receiver;
  }

  /// The message, and those behind it that waited for it alone.
  void launch_sends(std::int32_t rank, std::int32_t message, const std::vector<bool>& made,
                    std::vector<bool>& launched) {
    for (std::int32_t id = message; id != kNone; id = next_of(rank, id)) {
      const auto waits = [&](std::int32_t before) { return !launched[index(before)]; };
      // With `rank` and `pair` channels RECVs stand in the queue, too; one is launched where it is listed,
      // and what stands behind it not before. The chain ends at the first that is not made yet: its own
      // producer comes back to it.
      const bool is_ready = sends(rank, id) && made[index(id)] && !launched[index(id)];
      if (!is_ready || std::ranges::any_of(before(rank, id), waits)) return;
      launched[index(id)] = true;
      add(rank, id, flat_.messages[index(id)].first);
    }
  }

  bool sends(std::int32_t rank, std::int32_t message) const {
    return flat_.messages[index(message)].from_rank == rank;
  }

  const std::vector<std::int32_t>& before(std::int32_t rank, std::int32_t message) const {
    static const std::vector<std::int32_t> none;
    const auto found = before_.find({rank, message});
    return found == before_.end() ? none : found->second;
  }

  void add(std::int32_t rank, std::int32_t message, std::int32_t position) {
    of_rank_[index(rank)].push_back(
        {.message = message, .position = position, .before = before(rank, message)});
  }

  void add_collective(std::int32_t rank, std::int32_t message, std::int32_t position) {
    // The queue of a collective is its group's on this rank: the one before it there has to end first.
    const auto [last, is_first] = last_.try_emplace({rank, group_of(message)}, message);
    Launch launch{.message = message, .position = position};
    if (!is_first) launch.before = {std::exchange(last->second, message)};
    of_rank_[index(rank)].push_back(std::move(launch));
  }

  const FlatProgram& flat_;
  std::vector<std::vector<Launch>> of_rank_;
  std::vector<std::vector<std::int32_t>> sent_by_;                                     // by position
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::int32_t>> before_;  // by rank and message
  std::map<std::pair<std::int32_t, std::vector<std::int32_t>>, std::int32_t> last_;    // by rank and group
};

/// Starts launches and computes as long as anything moves. A message has ended when as many of its ends have
/// started as it has members; nothing is timed.
class LaunchWalk {
 public:
  explicit LaunchWalk(const FlatProgram& flat)
      : flat_(flat),
        launches_(flat),
        made_(flat.ops.size()),
        started_(flat.messages.size()),
        needed_(flat.messages.size()),
        at_(flat.rank_begin.begin(), flat.rank_begin.end() - 1),
        next_(index(flat.rank_count)),
        number_(flat.ops.size()) {
    // Asked for at every step, so that they are counted once.
    for (std::size_t id = 0; id < needed_.size(); ++id)
      needed_[id] = launches_.members(static_cast<std::int32_t>(id));
    for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) {
      const std::vector<Launch>& launches = launches_.of(rank);
      for (std::size_t i = 0; i < launches.size(); ++i) number_[index(launches[i].position)] = i;
    }
  }

  /// False: it hangs.
  bool ends() {
    // What can start, start and end goes on in any order: nothing that has become possible is ever undone,
    // so that the order makes no difference to where it ends.
    for (bool moved = true; moved;) {
      moved = false;
      for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank)
        moved |= start_next(rank) || compute_next(rank);
    }
    return stalled().empty();
  }

  std::vector<std::int32_t> stalled() const {
    std::vector<std::int32_t> positions;
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      if (at_[index(rank)] < flat_.rank_begin[index(rank) + 1]) positions.push_back(at_[index(rank)]);
    }
    return positions;
  }

  /// In the order of what comes first: program order, the other ends of what has started, what was
  /// launched before it, what is before it in its queues, and failing all that the rank's own computation.
  std::vector<std::int32_t> waits_for(std::int32_t position) const {
    const FlatOp op = flat_.ops[index(position)];
    const std::int32_t rank = flat_.rank_of(position);
    if (op == FlatOp::compute && position > at_[index(rank)]) return {at_[index(rank)]};
    if (op == FlatOp::compute) return missing_messages(position);
    if (has_started(rank, position)) return other_ends(position);
    const Launch& head = launches_.of(rank)[next_[index(rank)]];
    if (head.position != position) return {head.position};
    std::vector<std::int32_t> waits;
    for (const std::int32_t before : head.before) {
      if (!has_ended(before)) waits.push_back(end_on(rank, before));
    }
    if (waits.empty()) waits.push_back(at_[index(rank)]);  // what it sends, or what stands before it
    return waits;
  }

  /// What is to be said behind "A waits for B" where B is a launch of A's own rank: that it has started and
  /// holds the queue, or that it has not and holds the order.
  std::string_view words(std::int32_t position, std::int32_t next) const {
    const std::int32_t rank = flat_.rank_of(position);
    const bool both_launched =
        flat_.ops[index(position)] != FlatOp::compute && flat_.ops[index(next)] != FlatOp::compute;
    if (!both_launched || flat_.rank_of(next) != rank || has_started(rank, position)) return "";
    return has_started(rank, next) ? ", before it in its queue" : ", launched before it";
  }

 private:
  bool has_ended(std::int32_t message) const { return started_[index(message)] == needed_[index(message)]; }
  bool has_started(std::int32_t rank, std::int32_t position) const {
    return number_[index(position)] < next_[index(rank)];
  }

  /// The SEND, RECV or member of the rank.
  std::int32_t end_on(std::int32_t rank, std::int32_t message) const {
    const FlatMessage& flat = flat_.messages[index(message)];
    if (flat.recv != kNone) return flat.from_rank == rank ? flat.first : flat.recv;
    std::int32_t member = flat.first;
    while (flat_.rank_of(member) != rank) member = flat_.next_member[index(member)];
    return member;
  }

  std::vector<std::int32_t> other_ends(std::int32_t position) const {
    const FlatMessage& message = flat_.messages[index(flat_.message[index(position)])];
    if (message.recv != kNone) return {position == message.recv ? message.first : message.recv};
    std::vector<std::int32_t> late;
    for (std::int32_t m = message.first; m != kNone; m = flat_.next_member[index(m)]) {
      if (!has_started(flat_.rank_of(m), m)) late.push_back(m);
    }
    return late;
  }

  std::vector<std::int32_t> missing_messages(std::int32_t position) const {
    std::vector<std::int32_t> missing;
    for (std::int32_t w = flat_.next_wait[index(position)]; w != kNone; w = flat_.next_wait[index(w)]) {
      if (!has_ended(flat_.message[index(w)])) missing.push_back(w);
    }
    return missing;
  }

  /// The rank's next launch starts if it can; no later one can before it.
  bool start_next(std::int32_t rank) {
    const std::vector<Launch>& launches = launches_.of(rank);
    std::size_t& next = next_[index(rank)];
    if (next == launches.size()) return false;
    const Launch& launch = launches[next];
    if (!std::ranges::all_of(launch.before, [this](std::int32_t id) { return has_ended(id); })) return false;
    const FlatMessage& message = flat_.messages[index(launch.message)];
    if (message.recv != kNone && message.from_rank == rank && !made_[index(message.producer)]) return false;
    // What a collective moves has been made when the compute action before it has ended.
    if (message.recv == kNone && at_[index(rank)] < launch.position) return false;
    ++started_[index(launch.message)];
    ++next;
    return true;
  }

  /// Program order of the rank goes on by one position if it can.
  bool compute_next(std::int32_t rank) {
    std::int32_t& at = at_[index(rank)];
    if (at == flat_.rank_begin[index(rank) + 1]) return false;
    const FlatOp op = flat_.ops[index(at)];
    // Other communication does not hold program order up: only what is launched waits.
    if (op == FlatOp::barrier && !has_ended(flat_.message[index(at)])) return false;
    if (op == FlatOp::compute) {
      if (!missing_messages(at).empty()) return false;
      for (std::int32_t p = at; p < flat_.group_end(at); ++p) made_[index(p)] = true;
    }
    ++at;
    return true;
  }

  const FlatProgram& flat_;
  Launches launches_;
  std::vector<bool> made_;            // by position of a compute action: it has ended
  std::vector<std::size_t> started_;  // by message: how many of its ends
  std::vector<std::size_t> needed_;
  std::vector<std::int32_t> at_;     // by rank: what it computes next
  std::vector<std::size_t> next_;    // by rank: the launch that starts next
  std::vector<std::size_t> number_;  // by position of a SEND, RECV or collective: of its launch on its rank
};

}  // namespace

std::optional<Hang> find_launch_hang(const FlatProgram& flat, const ChannelOptions& channels) {
  if (!channels.launch_order || channels.blocking) return std::nullopt;
  LaunchWalk walk(flat);
  if (walk.ends()) return std::nullopt;
  return hang_of_cycle(
      flat, walk.stalled(), [&](std::int32_t position) { return walk.waits_for(position); }, channels,
      [&](std::int32_t position, std::int32_t next) { return walk.words(position, next); });
}

}  // namespace penstock
