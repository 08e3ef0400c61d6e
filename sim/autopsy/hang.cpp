// Finds the action at which a pipeline hangs from the messages that each rank has posted. The k-th SEND
// that a rank posted to another rank is the k-th SEND between these ranks in its list. The list repeats in
// every iteration. So each posted message gets a name. A rank has posted its list up to some position:
//
//   list     2RECV_F3 2F3 2SEND_F3 2RECV_B1 2B1 2SEND_B1 ...
//   posted   x                x        x                        2RECV_B1 has not arrived: rank 2 waits at 2B1
//                                                               it has arrived: rank 2 is stuck in 2B1
//
// RECVs may be posted earlier or later than the list has them. SENDs follow their producers, so they must
// come in the order of the list. Tests: tests/sim/hang_test.cpp.

#include "sim/autopsy/autopsy.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "sim/autopsy/trace_formats.hpp"

namespace penstock {
namespace {

/// A SEND or RECV in a rank's list.
struct ListedMessage {
  std::size_t position = 0;
  bool is_send = false;
  std::int32_t peer = 0;
};

/// The messages of one rank: those in its list, and those that it posted.
struct RankPosts {
  std::vector<ListedMessage> listed;  // messages in the rank's list of one iteration
  // Posted messages of all iterations; messages of sizes that the pipeline does not use are left out.
  std::vector<PostedMessage> posted;
  std::size_t first = 0;  // number of listed messages in front of the first post
  bool has_dump = false;
};

/// A message between two ranks, and its number among all messages in this direction and in all iterations.
struct PairNumber {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::size_t number = 0;
};

class HangFinder {
 public:
  HangFinder(const std::vector<RankDump>& dumps, const Program& lowered) : lowered_(lowered) {
    find_ranks(dumps);
    const std::string sizes = common_sizes(dumps);
    ranks_.resize(lowered.ranks.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) list_messages(rank);
    for (const RankDump& dump : dumps) take_dump(dump, sizes);
    count_posts();
  }

  std::optional<HangVerdict> find() {
    std::optional<HangVerdict> verdict = wrong_order();
    find_waits();
    if (!verdict) verdict = gone_rank();
    if (!verdict) verdict = stuck_rank();
    if (!verdict) verdict = cycle();
    if (verdict) verdict->waits = wait_lines();
    return verdict;
  }

 private:
  /// A wait of one rank for another rank: the action at which it waits, and the action that it awaits.
  struct Wait {
    std::int32_t rank = 0;  // the rank for which it waits
    std::string at;         // action that does not start, or message that does not end
    std::string awaited;
    std::int64_t iteration = 0;
  };

  /// The compute action in which a rank must be stuck. It comes before the rank's next message, and it has
  /// all its inputs.
  struct StuckAt {
    std::string action;
    std::int64_t iteration = 0;
    std::string before{};  // other actions between the latest message and `at`
  };

  /// Determines the numbers of the pipeline's ranks. They are those in the process group of the messages if
  /// it has the right size. Otherwise ranks are numbered from 0, as in the dumps.
  void find_ranks(const std::vector<RankDump>& dumps) {
    for (const RankDump& dump : dumps) {
      if (!dump.group.empty()) names_ = dump.group;
    }
    if (names_.size() == lowered_.ranks.size()) return;
    names_.clear();
    for (std::size_t rank = 0; rank < lowered_.ranks.size(); ++rank)
      names_.push_back(static_cast<std::int64_t>(rank));
  }
  std::optional<std::int32_t> rank_of(std::int64_t name) const {
    const auto found = std::ranges::find(names_, name);
    if (found == names_.end()) return std::nullopt;
    return static_cast<std::int32_t>(found - names_.begin());
  }
  std::int64_t name_of(std::int32_t rank) const { return names_[index(rank)]; }

  /// Returns the sizes that are most frequent among the latest messages, as text. Messages of other sizes
  /// were sent before the first iteration.
  static std::string common_sizes(const std::vector<RankDump>& dumps) {
    std::map<std::string, std::size_t> counts;
    for (const RankDump& dump : dumps) {
      const std::size_t latest = (dump.messages.size() + 3) / 4;
      for (std::size_t i = dump.messages.size() - latest; i < dump.messages.size(); ++i)
        ++counts[dump.messages[i].sizes];
    }
    const auto most = std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; });
    return most == counts.end() ? "" : most->first;
  }

  void list_messages(std::size_t rank) {
    const std::vector<Action>& list = lowered_.ranks[rank];
    for (std::size_t p = 0; p < list.size(); ++p) {
      if (!is_transfer(list[p].kind)) continue;
      ranks_[rank].listed.push_back({.position = p,
                                     .is_send = is_send(list[p].kind),
                                     .peer = lowered_.placement.rank_of(list[p].peer, list[p].microbatch)});
    }
  }

  void take_dump(const RankDump& dump, const std::string& sizes) {
    const auto rank = rank_of(dump.rank);
    if (!rank) return;
    RankPosts& own = ranks_[index(*rank)];
    own.has_dump = true;
    for (const PostedMessage& message : dump.messages) {
      const auto peer = rank_of(message.peer);
      if (!peer || message.sizes != sizes) continue;
      own.posted.push_back(message);
      own.posted.back().peer = *peer;
    }
    if (dump.lost_beginning && !own.listed.empty()) own.first = best_first(own);
  }

  /// Returns the index in a rank's list of the first message that the dump contains. A dump is a ring buffer
  /// and may have lost its oldest messages. The result is the index from which most posted messages agree
  /// with the list.
  static std::size_t best_first(const RankPosts& rank) {
    std::size_t best = 0;
    std::size_t most = 0;
    for (std::size_t first = 0; first < rank.listed.size(); ++first) {
      std::size_t fits = 0;
      for (std::size_t i = 0; i < rank.posted.size(); ++i) {
        const ListedMessage& listed = rank.listed[(first + i) % rank.listed.size()];
        if (listed.is_send != rank.posted[i].is_send || listed.peer != rank.posted[i].peer) break;
        ++fits;
      }
      if (fits > most) {
        most = fits;
        best = first;
      }
    }
    return best;
  }

  /// Counts, for each pair of ranks, the messages that were sent and received so far.
  void count_posts() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto own = static_cast<std::int32_t>(rank);
      for (std::size_t i = 0; i < ranks_[rank].first; ++i)
        add_post(own, ranks_[rank].listed[i].is_send, ranks_[rank].listed[i].peer);
      for (const PostedMessage& message : ranks_[rank].posted)
        add_post(own, message.is_send, static_cast<std::int32_t>(message.peer));
    }
  }
  void add_post(std::int32_t rank, bool is_send, std::int32_t peer) {
    if (is_send) {
      ++sent_[{rank, peer}];
    } else {
      ++received_[{peer, rank}];
    }
  }

  /// Returns the message at `place` in a rank's list. The list is repeated for ever, so `place` may exceed
  /// its length.
  const ListedMessage& listed(std::size_t rank, std::size_t place) const {
    return ranks_[rank].listed[place % ranks_[rank].listed.size()];
  }
  const Action& action_at(std::size_t rank, std::size_t place) const {
    return lowered_.ranks[rank][listed(rank, place).position];
  }

  /// Returns the number of messages that a rank posted in the order of its list. It counts from the first
  /// posted message to the first difference.
  std::size_t equal_posts(std::size_t rank) const {
    const RankPosts& own = ranks_[rank];
    std::size_t equal = 0;
    for (; equal < own.posted.size(); ++equal) {
      const ListedMessage& expected = listed(rank, own.first + equal);
      if (expected.is_send != own.posted[equal].is_send || expected.peer != own.posted[equal].peer) break;
    }
    return equal;
  }

  /// Returns true if the runtime posts RECVs in the order of the lists. This is assumed if most ranks did
  /// so, or if this rank did so for a whole iteration.
  bool follows_lists(std::size_t rank) const {
    std::size_t ranks = 0;
    std::size_t exact = 0;
    for (std::size_t other = 0; other < ranks_.size(); ++other) {
      if (ranks_[other].listed.empty() || ranks_[other].posted.empty()) continue;
      ++ranks;
      if (equal_posts(other) == ranks_[other].posted.size()) ++exact;
    }
    return 2 * exact >= ranks || equal_posts(rank) >= ranks_[rank].listed.size();
  }

  /// Finds the first message that a rank did not post in the order of its list. Returns nothing if all
  /// ranks followed their lists.
  std::optional<HangVerdict> wrong_order() const {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const RankPosts& own = ranks_[rank];
      if (own.listed.empty()) continue;
      if (follows_lists(rank)) {
        const std::size_t equal = equal_posts(rank);
        if (equal < own.posted.size()) return missing_post(rank, own.first + equal);
        continue;
      }
      // RECVs may be posted early, so only SENDs are compared with the order of the list.
      std::size_t place = own.first;
      for (const PostedMessage& message : own.posted) {
        if (!message.is_send) continue;
        while (!listed(rank, place).is_send) ++place;
        if (listed(rank, place).peer != message.peer) return missing_post(rank, place);
        ++place;
      }
    }
    return std::nullopt;
  }

  HangVerdict missing_post(std::size_t rank, std::size_t place) const {
    const RankPosts& own = ranks_[rank];
    const std::int64_t self = name_of(static_cast<std::int32_t>(rank));
    const std::string action = to_text(action_at(rank, place));
    std::string why = fmt::format(
        "rank {} did not post {} and went on: its list is not the one that was meant", self, action);
    // In a dump, messages to one rank in one direction look alike. If several follow each other, any of them
    // may be the missing one.
    std::size_t first = place;
    while (first > own.first && listed(rank, first - 1).is_send == listed(rank, place).is_send &&
           listed(rank, first - 1).peer == listed(rank, place).peer)
      --first;
    if (first < place) {
      why += fmt::format(" (or one of the messages before it, from {} on, which look alike)",
                         to_text(action_at(rank, first)));
    }
    return HangVerdict{.kind = HangKind::order,
                       .rank = self,
                       .action = action,
                       .iteration = static_cast<std::int64_t>(place / own.listed.size()),
                       .why = std::move(why)};
  }

  /// Returns the first place in a rank's list for which the rank has not posted the message. Messages are
  /// counted by direction and peer, because RECVs may be posted earlier than the list has them.
  std::size_t next_place(std::size_t rank) const {
    const RankPosts& own = ranks_[rank];
    std::map<std::pair<bool, std::int64_t>, std::size_t> posted;
    for (const PostedMessage& message : own.posted) ++posted[{message.is_send, message.peer}];
    std::size_t place = own.first;
    while (true) {
      const ListedMessage& one = listed(rank, place);
      std::size_t& left = posted[{one.is_send, one.peer}];
      if (left == 0) return place;
      --left;
      ++place;
    }
  }

  /// Finds the message for which each rank waits.
  void find_waits() {
    waits_.resize(ranks_.size());
    stuck_at_.resize(ranks_.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].has_dump && !ranks_[rank].listed.empty()) find_wait(rank);
    }
  }

  void find_wait(std::size_t rank) {
    const RankPosts& own = ranks_[rank];
    const std::vector<Action>& list = lowered_.ranks[rank];
    const std::size_t next = next_place(rank);
    const auto iteration = static_cast<std::int64_t>(next / own.listed.size());
    std::vector<std::string> computes;
    // Returns true if an action of the list waits for an input.
    const auto waits_in = [&](std::size_t begin, std::size_t end, std::int64_t in_iteration) {
      for (std::size_t p = begin; p < end; ++p) {
        if (!has_weight_version(list[p].kind)) continue;
        computes.push_back(to_text(list[p]));
        waits_[rank] = missing_input(rank, list[p], in_iteration);
        if (waits_[rank]) return true;
      }
      return false;
    };
    std::size_t begin = 0;
    if (next % own.listed.size() != 0) {
      begin = listed(rank, next - 1).position + 1;
    } else if (next > 0 && waits_in(own.listed.back().position + 1, list.size(), iteration - 1)) {
      return;
    }
    if (waits_in(begin, listed(rank, next).position, iteration)) return;
    if (!computes.empty()) {
      stuck_at_[rank] = StuckAt{.action = computes.back(), .iteration = iteration};
      computes.pop_back();
      stuck_at_[rank]->before = fmt::format("{}", fmt::join(computes, ", "));
    } else if (next > own.first) {
      wait_for_message(rank, next - 1);
    }
  }

  /// Finds the first input of an action that the sender has not sent, and returns the wait for this input.
  /// Returns nothing if all inputs were sent.
  std::optional<Wait> missing_input(std::size_t rank, const Action& action, std::int64_t iteration) const {
    const RankPosts& own = ranks_[rank];
    const std::vector<Action>& list = lowered_.ranks[rank];
    const bool forward = action.kind == ActionKind::forward;
    if (!forward && !makes_input_gradient(action.kind)) return std::nullopt;
    const ActionKind kind = forward ? ActionKind::recv_forward : ActionKind::recv_backward;
    for (std::size_t i = 0; i < own.listed.size(); ++i) {
      const Action& recv = list[own.listed[i].position];
      if (recv.kind != kind || recv.stage != action.stage || recv.microbatch != action.microbatch) continue;
      const std::int32_t from = own.listed[i].peer;
      const std::size_t number =
          number_in_pair(rank, i) + static_cast<std::size_t>(iteration) * count_of_pair(rank, false, from);
      const auto sent = sent_.find({from, static_cast<std::int32_t>(rank)});
      if (sent != sent_.end() && sent->second > number) continue;
      return Wait{.rank = from,
                  .at = to_text(action),
                  .awaited = to_text(send_of(message_of(recv))),
                  .iteration = iteration};
    }
    return std::nullopt;
  }

  /// Records that a rank waits for the other end of the message at `place` in its list. The rank itself has
  /// posted this message. Does nothing if the other end has posted it, too.
  void wait_for_message(std::size_t rank, std::size_t place) {
    const RankPosts& own = ranks_[rank];
    const ListedMessage& one = listed(rank, place);
    const auto iteration = place / own.listed.size();
    const std::size_t number = number_in_pair(rank, place % own.listed.size()) +
                               iteration * count_of_pair(rank, one.is_send, one.peer);
    const auto& other = one.is_send ? received_ : sent_;
    const auto self = static_cast<std::int32_t>(rank);
    const auto posted = other.find(one.is_send ? std::pair(self, one.peer) : std::pair(one.peer, self));
    if (posted != other.end() && posted->second > number) return;
    const StageMessage message = message_of(action_at(rank, place));
    waits_[rank] = Wait{.rank = one.peer,
                        .at = to_text(action_at(rank, place)),
                        .awaited = to_text(one.is_send ? recv_of(message) : send_of(message)),
                        .iteration = static_cast<std::int64_t>(iteration)};
  }

  /// Returns the number of messages before `entry` in a rank's list that have the same direction and the
  /// same peer.
  std::size_t number_in_pair(std::size_t rank, std::size_t entry) const {
    const std::vector<ListedMessage>& listed = ranks_[rank].listed;
    return static_cast<std::size_t>(std::count_if(
        listed.begin(), listed.begin() + static_cast<std::ptrdiff_t>(entry), [&](const ListedMessage& one) {
          return one.is_send == listed[entry].is_send && one.peer == listed[entry].peer;
        }));
  }
  std::size_t count_of_pair(std::size_t rank, bool is_send, std::int32_t peer) const {
    return static_cast<std::size_t>(std::ranges::count_if(ranks_[rank].listed, [&](const ListedMessage& one) {
      return one.is_send == is_send && one.peer == peer;
    }));
  }

  std::optional<HangVerdict> gone_rank() const {
    for (const auto& wait : waits_) {
      if (!wait || ranks_[index(wait->rank)].has_dump) continue;
      return HangVerdict{.kind = HangKind::gone,
                         .rank = name_of(wait->rank),
                         .action = wait->awaited,
                         .iteration = wait->iteration,
                         .why = fmt::format("rank {} has no dump, and its {} does not come: it is gone",
                                            name_of(wait->rank), wait->awaited)};
    }
    return std::nullopt;
  }

  std::optional<HangVerdict> stuck_rank() const {
    std::set<std::int32_t> awaited;
    for (const auto& wait : waits_) {
      if (wait) awaited.insert(wait->rank);
    }
    for (const std::int32_t rank : awaited) {
      const auto& stuck = stuck_at_[index(rank)];
      if (!stuck) continue;
      std::string why =
          fmt::format("rank {} has all that {} needs and does not end it", name_of(rank), stuck->action);
      if (!stuck->before.empty()) why += fmt::format("; it may also be in {}", stuck->before);
      return HangVerdict{.kind = HangKind::stuck,
                         .rank = name_of(rank),
                         .action = stuck->action,
                         .iteration = stuck->iteration,
                         .why = std::move(why)};
    }
    return std::nullopt;
  }

  std::optional<HangVerdict> cycle() const {
    for (std::size_t first = 0; first < waits_.size(); ++first) {
      std::set<std::size_t> seen;
      std::size_t rank = first;
      while (waits_[rank] && seen.insert(rank).second) rank = index(waits_[rank]->rank);
      if (!waits_[rank] || rank != first) continue;
      return HangVerdict{
          .kind = HangKind::cycle,
          .rank = name_of(static_cast<std::int32_t>(rank)),
          .action = waits_[rank]->at,
          .iteration = waits_[rank]->iteration,
          .why = "ranks wait for each other; `penstock check` says under which channels these lists hang"};
    }
    return std::nullopt;
  }

  std::vector<std::string> wait_lines() const {
    std::vector<std::string> lines;
    for (std::size_t rank = 0; rank < waits_.size(); ++rank) {
      const auto self = name_of(static_cast<std::int32_t>(rank));
      if (waits_[rank]) {
        lines.push_back(fmt::format("rank {} waits at {} of iteration {} for {} of rank {}", self,
                                    waits_[rank]->at, waits_[rank]->iteration, waits_[rank]->awaited,
                                    name_of(waits_[rank]->rank)));
      } else if (!ranks_[rank].has_dump) {
        lines.push_back(fmt::format("rank {} has no dump", self));
      } else if (stuck_at_[rank]) {
        lines.push_back(fmt::format("rank {} is in {} of iteration {}", self, stuck_at_[rank]->action,
                                    stuck_at_[rank]->iteration));
      }
    }
    return lines;
  }

  const Program& lowered_;
  std::vector<std::int64_t> names_;
  std::vector<RankPosts> ranks_;
  // Number of messages, by sender and receiver.
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> sent_;
  // Number of messages, by sender and receiver.
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> received_;
  std::vector<std::optional<Wait>> waits_;
  std::vector<std::optional<StuckAt>> stuck_at_;
};

/// Finds a rank that has not joined a collective which other ranks have joined. Returns nothing if there is
/// none.
std::optional<HangVerdict> missing_collective(const std::vector<RankDump>& dumps) {
  // The collective that each rank posted, by group and rank.
  std::map<std::string, std::map<std::int64_t, const PostedCollective*>> latest;
  for (const RankDump& dump : dumps) {
    for (const PostedCollective& one : dump.collectives) latest[one.group][dump.rank] = &one;
  }
  for (const auto& [group, ranks] : latest) {
    const auto behind =
        std::ranges::min_element(ranks, {}, [](const auto& one) { return one.second->sequence; });
    const auto ahead =
        std::ranges::max_element(ranks, {}, [](const auto& one) { return one.second->sequence; });
    if (behind->second->sequence == ahead->second->sequence || ahead->second->completed) continue;
    return HangVerdict{
        .kind = HangKind::collective,
        .rank = behind->first,
        .action = ahead->second->name,
        .iteration = ahead->second->sequence,
        .why = fmt::format("rank {} has not joined collective {} of group {}, which rank {} waits for",
                           behind->first, ahead->second->sequence, group, ahead->first)};
  }
  return std::nullopt;
}

/// Returns the dumps of each copy of the pipeline. Two ranks are of one copy if their messages use the same
/// process group. Returns nothing if there is only one copy, or if the groups are not those of pipelines.
std::vector<std::vector<RankDump>> dumps_of_copies(const std::vector<RankDump>& dumps,
                                                   const Program& lowered) {
  std::map<std::vector<std::int64_t>, std::vector<RankDump>> of_groups;
  for (const RankDump& dump : dumps) {
    if (!dump.group.empty()) of_groups[dump.group];
  }
  for (const RankDump& dump : dumps) {
    // A rank that has posted no message has no group in its dump, but the groups in other dumps contain it.
    const auto group = std::ranges::find_if(of_groups, [&](const auto& one) {
      return dump.group.empty() ? std::ranges::find(one.first, dump.rank) != one.first.end()
                                : one.first == dump.group;
    });
    if (group == of_groups.end()) return {};
    group->second.push_back(dump);
  }
  std::vector<std::vector<RankDump>> copies;
  for (auto& [group, own] : of_groups) {
    if (group.size() != lowered.ranks.size() || own.size() > group.size()) return {};
    copies.push_back(std::move(own));
  }
  return copies.size() > 1 ? copies : std::vector<std::vector<RankDump>>{};
}

}  // namespace

std::int64_t ranks_of_dumps(const std::vector<RankDump>& dumps) {
  std::int64_t ranks = 0;
  for (const RankDump& dump : dumps) {
    if (!dump.group.empty()) return std::ssize(dump.group);
    ranks = std::max(ranks, dump.rank + 1);
    for (const PostedMessage& message : dump.messages) ranks = std::max(ranks, message.peer + 1);
  }
  return ranks;
}

tl::expected<std::optional<HangVerdict>, std::string> find_recorded_hang(const std::vector<RankDump>& dumps,
                                                                         const Program& lowered) {
  const std::vector<std::vector<RankDump>> copies = dumps_of_copies(dumps, lowered);
  if (copies.empty() && dumps.size() > lowered.ranks.size()) {
    return tl::unexpected(
        fmt::format("expected at most {} dumps, one for each rank, got {}, and they do not state process "
                    "groups of {} ranks: give the dumps of one copy of the pipeline, or another --pp-size",
                    lowered.ranks.size(), dumps.size(), lowered.ranks.size()));
  }
  // The other copies wait for the copy that hangs, at the end of their iteration or later.
  std::optional<HangVerdict> earliest;
  for (const std::vector<RankDump>& copy : copies) {
    auto verdict = HangFinder(copy, lowered).find();
    if (verdict && (!earliest || verdict->iteration < earliest->iteration)) earliest = std::move(verdict);
  }
  if (copies.empty()) earliest = HangFinder(dumps, lowered).find();
  if (earliest) return earliest;
  return missing_collective(dumps);
}

std::string to_text(const std::optional<HangVerdict>& verdict) {
  if (!verdict) return "the dumps show no hang\n";
  std::string text = fmt::format("rank {}, {} of iteration {} ({}): {}\n", verdict->rank, verdict->action,
                                 verdict->iteration, to_text(verdict->kind), verdict->why);
  for (const std::string& line : verdict->waits) text += fmt::format("  {}\n", line);
  return text;
}

std::string hang_to_json(const std::optional<HangVerdict>& verdict) {
  nlohmann::ordered_json document = {{"schema_version", 1}, {"kind", "hang"}, {"hang", nullptr}};
  if (verdict) {
    document["hang"] = {
        {"rank", verdict->rank},          {"action", verdict->action}, {"iteration", verdict->iteration},
        {"kind", to_text(verdict->kind)}, {"why", verdict->why},       {"waits", verdict->waits}};
  }
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace penstock
