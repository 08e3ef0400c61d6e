// NCCL can start a rank's communication kernels in the order of their launches. Then a RECV that waits in its
// queue also delays a SEND that was launched after it, although the SEND's message is ready:
//
//   rank 0   F0 RECV_B0 RECV_B1 F1 SEND_F1        RECV_B1 waits on its stream for RECV_B0, SEND_F1
//   rank 1   RECV_F0 F0 RECV_F1 F1 B0 SEND_B0     for the start of RECV_B1, and F1 of rank 1 for SEND_F1
//
// Since SEND_B0 comes after F1, both ranks hang.
//
// All launches are known before the walk. LaunchWalk starts and ends every launch that can start and end,
// until nothing changes. If positions remain, they wait for each other in a cycle. channel_check.cpp calls
// this check for a program that does not hang on its channels. Tested by launch_order_test.cpp.

#include "schedules/check/channel_check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/wait_cycle.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

/// The launch of a SEND, a RECV or a collective by one rank.
struct Launch {
  std::int32_t message = kNone;
  std::int32_t position = kNone;          // the position of its action
  std::vector<std::int32_t> before = {};  // the messages directly before it in its queues on this rank
};

/// The launches of all ranks, in the order in which each rank launches them.
class Launches {
 public:
  explicit Launches(const FlatProgram& flat)
      : flat_(flat), of_rank_(index(flat.rank_count)), sent_by_(flat.ops.size()) {
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(flat.messages.size()); ++id) {
      const FlatMessage& message = flat.messages[index(id)];
      if (message.recv == kNone) continue;
      // A SEND is launched after its producer, even if the SEND comes later in the list.
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
  /// Returns the members' ranks in ascending order. All collectives of one group have the same result.
  std::vector<std::int32_t> group_of(std::int32_t message) const {
    std::vector<std::int32_t> members;
    for (std::int32_t m = flat_.messages[index(message)].first; m != kNone; m = flat_.next_member[index(m)])
      members.push_back(flat_.rank_of(m));
    std::ranges::sort(members);
    return members;
  }

  /// Lists the launches of the rank, in order. A RECV or collective is launched at its position. A SEND is
  /// launched after its message is produced and all earlier messages of its queue are launched. If it were
  /// launched earlier, it would wait forever for a later RECV that comes before it in the queue.
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

  /// Launches the message's SEND. Then it launches the next SENDs in the queue that only waited for this
  /// launch.
  void launch_sends(std::int32_t rank, std::int32_t message, const std::vector<bool>& made,
                    std::vector<bool>& launched) {
    for (std::int32_t id = message; id != kNone; id = next_of(rank, id)) {
      const auto waits = [&](std::int32_t before) { return !launched[index(before)]; };
      // With `rank` and `pair` channels the queue also holds RECVs. A RECV is launched at its position and
      // delays the messages after it. The loop stops at the first SEND without data. When the producer of
      // this data ends, this function is called again.
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
    // A collective must wait until the previous collective of the same group on this rank has ended.
    const auto [last, is_first] = last_.try_emplace({rank, group_of(message)}, message);
    Launch launch{.message = message, .position = position};
    if (!is_first) launch.before = {std::exchange(last->second, message)};
    of_rank_[index(rank)].push_back(std::move(launch));
  }

  const FlatProgram& flat_;
  std::vector<std::vector<Launch>> of_rank_;
  std::vector<std::vector<std::int32_t>> sent_by_;  // the messages of each producer, by its position
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::int32_t>> before_;  // by rank and message
  std::map<std::pair<std::int32_t, std::vector<std::int32_t>>, std::int32_t> last_;    // by rank and group
};

/// A walk without times. It starts launches and compute actions as long as any can start. A message ends when
/// all its ends or members have started.
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
    // The walk reads these numbers often, so they are computed once.
    for (std::size_t id = 0; id < needed_.size(); ++id)
      needed_[id] = launches_.members(static_cast<std::int32_t>(id));
    for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) {
      const std::vector<Launch>& launches = launches_.of(rank);
      for (std::size_t i = 0; i < launches.size(); ++i) number_[index(launches[i].position)] = i;
    }
  }

  /// Returns true if the program ends, and false if it hangs.
  bool ends() {
    // The order of these steps does not change the result, because a step that has become possible remains
    // possible.
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

  /// Returns the positions that a position waits for. It looks for waits in this order and returns the first
  /// that it finds: an earlier position of the rank, the other ends of a started message, an earlier launch,
  /// earlier messages in the queues, the rank's own computation.
  std::vector<std::int32_t> waits_for(std::int32_t position) const {
    const FlatOp op = flat_.ops[index(position)];
    const std::int32_t rank = flat_.rank_of(position);
    const bool is_listed = op == FlatOp::compute || op == FlatOp::wait;
    if (is_listed && position > at_[index(rank)]) return {at_[index(rank)]};
    if (is_listed) return missing_messages(position);
    if (has_started(rank, position)) return other_ends(position);
    const Launch& head = launches_.of(rank)[next_[index(rank)]];
    if (head.position != position) return {head.position};
    std::vector<std::int32_t> waits;
    for (const std::int32_t before : head.before) {
      if (!has_ended(before)) waits.push_back(end_on(rank, before));
    }
    if (waits.empty())
      waits.push_back(at_[index(rank)]);  // the producer of its data, or the position before it
    return waits;
  }

  /// Returns the text after "A waits for B" if B is an earlier launch of A's own rank. The text says whether
  /// B has started and occupies the queue, or B only comes earlier in launch order.
  std::string_view words(std::int32_t position, std::int32_t next) const {
    const std::int32_t rank = flat_.rank_of(position);
    const auto is_launched = [&](std::int32_t p) {
      return flat_.ops[index(p)] != FlatOp::compute && flat_.ops[index(p)] != FlatOp::wait;
    };
    const bool both_launched = is_launched(position) && is_launched(next);
    if (!both_launched || flat_.rank_of(next) != rank || has_started(rank, position)) return "";
    return has_started(rank, next) ? ", before it in its queue" : ", launched before it";
  }

 private:
  bool has_ended(std::int32_t message) const { return started_[index(message)] == needed_[index(message)]; }
  bool has_started(std::int32_t rank, std::int32_t position) const {
    return number_[index(position)] < next_[index(rank)];
  }

  /// Returns the position on the rank of a message's SEND, RECV or collective action.
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

  /// Starts the rank's next launch if possible. Later launches must wait for it.
  bool start_next(std::int32_t rank) {
    const std::vector<Launch>& launches = launches_.of(rank);
    std::size_t& next = next_[index(rank)];
    if (next == launches.size()) return false;
    const Launch& launch = launches[next];
    if (!std::ranges::all_of(launch.before, [this](std::int32_t id) { return has_ended(id); })) return false;
    const FlatMessage& message = flat_.messages[index(launch.message)];
    if (message.recv != kNone && message.from_rank == rank && !made_[index(message.producer)]) return false;
    // The data of a collective is ready when the rank has reached the collective's position.
    if (message.recv == kNone && at_[index(rank)] < launch.position) return false;
    ++started_[index(launch.message)];
    ++next;
    return true;
  }

  /// Advances the rank by one position in program order if possible.
  bool compute_next(std::int32_t rank) {
    std::int32_t& at = at_[index(rank)];
    if (at == flat_.rank_begin[index(rank) + 1]) return false;
    const FlatOp op = flat_.ops[index(at)];
    // The rank only launches communication and does not wait for its end, except at a barrier or a WAIT.
    if (op == FlatOp::barrier && !has_ended(flat_.message[index(at)])) return false;
    if (op == FlatOp::wait && !missing_messages(at).empty()) return false;
    if (op == FlatOp::compute) {
      if (!missing_messages(at).empty()) return false;
      for (std::int32_t p = at; p < flat_.group_end(at); ++p) made_[index(p)] = true;
    }
    ++at;
    return true;
  }

  const FlatProgram& flat_;
  Launches launches_;
  std::vector<bool> made_;            // by position of a compute action: true if it has ended
  std::vector<std::size_t> started_;  // by message: the number of its started ends
  std::vector<std::size_t> needed_;   // by message: the number of its ends
  std::vector<std::int32_t> at_;      // by rank: the next position of program order
  std::vector<std::size_t> next_;     // by rank: the next launch
  std::vector<std::size_t> number_;   // by position of a SEND, RECV or collective: its launch on its rank
};

}  // namespace

std::optional<Hang> find_launch_hang(const FlatProgram& flat, const ChannelOptions& channels) {
  if (!channels.launch_order || channels.waits()) return std::nullopt;
  LaunchWalk walk(flat);
  if (walk.ends()) return std::nullopt;
  return hang_of_cycle(
      flat, walk.stalled(), [&](std::int32_t position) { return walk.waits_for(position); }, channels,
      [&](std::int32_t position, std::int32_t next) { return walk.words(position, next); });
}

}  // namespace penstock
