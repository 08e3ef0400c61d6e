// A RECV that stands behind another of its pair has not started; a SEND that was launched behind it cannot
// start, though its message is made:
//
//   rank 0   F0 RECV_B0 RECV_B1 F1 SEND_F1        RECV_B1 waits on its stream for RECV_B0, SEND_F1 for its
//   start, rank 1   RECV_F0 F0 RECV_F1 F1 B0 SEND_B0     B0 on rank 1 for F1: nobody gets on
//
// All launches are known beforehand; what can start, start and end is repeated until nothing changes.

#include "schedules/check/launch_order.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

/// One rank's part of a message or collective.
struct Launch {
  std::int32_t message = kNone;
  std::int32_t position = kNone;  // of the action that it belongs to
  std::int32_t before = kNone;    // on its channel or group, on this rank: number of the launch
  bool started = false;
};

class LaunchWalk {
 public:
  explicit LaunchWalk(const FlatProgram& flat)
      : flat_(flat),
        launches_(index(flat.rank_count)),
        made_(flat.ops.size()),
        parts_(flat.messages.size()),
        sent_by_(flat.ops.size()),
        at_(flat.rank_begin.begin(), flat.rank_begin.end() - 1),
        next_(index(flat.rank_count)) {
    for (std::size_t id = 0; id < flat.messages.size(); ++id) {
      if (flat.messages[id].recv == kNone) continue;
      sent_by_[index(flat.messages[id].producer)].push_back(static_cast<std::int32_t>(id));
    }
    for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) launch_all(rank);
  }

  std::optional<LaunchHang> walk() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank)
        moved |= start_next(rank) || compute_next(rank);
    }
    LaunchHang hang;
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      if (at_[index(rank)] == flat_.rank_begin[index(rank) + 1]) continue;
      hang.ranks.push_back(rank);
      hang.message += standing_of(rank);
    }
    if (hang.ranks.empty()) return std::nullopt;
    return hang;
  }

 private:
  using Stream = std::vector<std::int32_t>;  // the ranks of a directed pair, or of a group behind a kNone

  Stream stream_of(std::int32_t message) const {
    const FlatMessage& flat = flat_.messages[index(message)];
    if (flat.recv != kNone) return {flat.from_rank, flat.to_rank};
    Stream members = {kNone};
    for (std::int32_t m = flat.first; m != kNone; m = flat_.next_member[index(m)])
      members.push_back(flat_.rank_of(m));
    std::ranges::sort(members);
    return members;
  }

  void launch_all(std::int32_t rank) {
    const std::int32_t begin = flat_.rank_begin[index(rank)];
    const std::int32_t end = flat_.rank_begin[index(rank) + 1];
    std::map<Stream, std::int32_t> heads;  // of each directed pair: the next SEND in its FIFO
    for (std::int32_t p = begin; p < end; ++p) {
      const std::int32_t message = flat_.message[index(p)];
      if (flat_.ops[index(p)] == FlatOp::send) heads.try_emplace(stream_of(message), message);
    }
    std::map<Stream, std::int32_t> last;
    std::vector<bool> given(flat_.messages.size());
    for (std::int32_t p = begin; p < end; ++p) {
      const FlatOp op = flat_.ops[index(p)];
      const bool launches = op == FlatOp::recv || op == FlatOp::collective || op == FlatOp::barrier;
      if (launches) launch(rank, flat_.message[index(p)], p, last);
      for (const std::int32_t id : sent_by_[index(p)]) {
        given[index(id)] = true;
        std::int32_t& head = heads.at(stream_of(id));
        for (; head != kNone && given[index(head)]; head = flat_.messages[index(head)].next_at_sender) {
          launch(rank, head, flat_.messages[index(head)].first, last);
        }
      }
    }
  }

  void launch(std::int32_t rank, std::int32_t message, std::int32_t position,
              std::map<Stream, std::int32_t>& last) {
    auto& launches = launches_[index(rank)];
    const auto [before, is_first] = last.try_emplace(stream_of(message), kNone);
    launches.push_back({.message = message, .position = position, .before = before->second});
    before->second = static_cast<std::int32_t>(launches.size()) - 1;
  }

  bool has_ended(std::int32_t message) const {
    const FlatMessage& flat = flat_.messages[index(message)];
    std::size_t needed = 2;
    if (flat.recv == kNone) needed = stream_of(message).size() - 1;
    return parts_[index(message)] == needed;
  }

  bool start_next(std::int32_t rank) {
    const auto& launches = launches_[index(rank)];
    std::size_t& next = next_[index(rank)];
    if (next == launches.size()) return false;
    const Launch& launch = launches[next];
    if (launch.before != kNone && !has_ended(launches[index(launch.before)].message)) return false;
    const FlatMessage& message = flat_.messages[index(launch.message)];
    if (message.recv != kNone && message.from_rank == rank && !made_[index(message.producer)]) return false;
    // What a collective moves has been made when the compute action before it has ended.
    if (message.recv == kNone && at_[index(rank)] < launch.position) return false;
    ++parts_[index(launch.message)];
    ++next;
    return true;
  }

  bool compute_next(std::int32_t rank) {
    std::int32_t& at = at_[index(rank)];
    if (at == flat_.rank_begin[index(rank) + 1]) return false;
    const FlatOp op = flat_.ops[index(at)];
    if (op == FlatOp::barrier && !has_ended(flat_.message[index(at)])) return false;
    if (op == FlatOp::compute) {
      for (std::int32_t w = flat_.next_wait[index(at)]; w != kNone; w = flat_.next_wait[index(w)]) {
        if (!has_ended(flat_.message[index(w)])) return false;
      }
      for (std::int32_t p = at; p < flat_.group_end(at); ++p) made_[index(p)] = true;
    }
    ++at;
    return true;
  }

  std::string name_at(std::int32_t position) const {
    return flat_.ops[index(position)] == FlatOp::barrier ? "the barrier"
                                                         : to_text(flat_.actions[index(position)]);
  }

  std::string standing_of(std::int32_t rank) const {
    const auto& launches = launches_[index(rank)];
    std::string text = fmt::format("  rank {} stands at {}", rank, name_at(at_[index(rank)]));
    if (next_[index(rank)] == launches.size()) return text + "\n";
    const Launch& held = launches[next_[index(rank)]];
    text += fmt::format("; {} has not started", name_at(held.position));
    if (held.before != kNone && !has_ended(launches[index(held.before)].message)) {
      text +=
          fmt::format(", since {} before it has not ended", name_at(launches[index(held.before)].position));
    }
    const std::size_t behind = launches.size() - next_[index(rank)] - 1;
    return text + fmt::format(", and holds back {} launched behind it\n", behind);
  }

  const FlatProgram& flat_;
  std::vector<std::vector<Launch>> launches_;  // by rank, in launch order
  std::vector<bool> made_;                     // by position of a compute action: it has ended
  std::vector<std::size_t> parts_;             // by message: how many of its ends have started
  std::vector<std::vector<std::int32_t>> sent_by_;
  std::vector<std::int32_t> at_;   // by rank: what it computes next
  std::vector<std::size_t> next_;  // by rank: the launch that starts next
};

}  // namespace

std::optional<LaunchHang> find_launch_hang(const FlatProgram& flat) { return LaunchWalk(flat).walk(); }

}  // namespace penstock
