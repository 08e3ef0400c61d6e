// Inserts the messages into a compute program. take_turns.hpp decides the order of all actions and calls a
// sink for each of them. This file has two sinks: one writes lists for lower(), and one stores short words
// for lowered_digest(). The last part of the file moves RECVs of a lowered program. Tested by
// take_turns_test.cpp, digest_test.cpp and defer_receives_test.cpp.

#include "schedules/passes/lower.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/crossed_messages.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/take_turns.hpp"
#include "schedules/passes/turn_state.hpp"

namespace penstock {

// A sink of placement rounds (take_turns.hpp) that stores the placed actions as lists.

/// Returns a program with all fields of `program` except its lists.
Program without_lists(const Program& program);

/// A sink that collects a program's lists with their messages.
class ListWriter {
 public:
  explicit ListWriter(const Program& program) : lists_(program.ranks.size()) {
    // In a chain each action has at most one RECV and one SEND.
    for (std::size_t rank = 0; rank < lists_.size(); ++rank)
      lists_[rank].reserve(3 * program.ranks[rank].size());
  }

  void compute(std::int32_t rank, std::span<const Action> group) {
    std::vector<Action>& list = lists_[index(rank)];
    for (const Action& action : group) list.push_back(action);
  }
  /// Appends both ends of a message at the same moment. This is the reason why lowered lists cannot hang
  /// (lower()).
  void message(const StageMessage& message, std::int32_t from_rank, std::int32_t to_rank) {
    lists_[index(from_rank)].push_back(send_of(message));
    lists_[index(to_rank)].push_back(recv_of(message));
  }
  void collective(std::int32_t rank, const Action& action) { lists_[index(rank)].push_back(action); }

  std::vector<std::vector<Action>> lists() && { return std::move(lists_); }

 private:
  std::vector<std::vector<Action>> lists_;
};

// The passes that write new lists copy all other fields of the program with this function. A field that is
// missing here would be lost by lowering.

Program without_lists(const Program& program) {
  return {.schedule = program.schedule,
          .microbatches = program.microbatches,
          .slices = program.slices,
          .iterations = program.iterations,
          .barrier = program.barrier,
          .mixed_versions = program.mixed_versions,
          .update = program.update,
          .recompute = program.recompute,
          .sharding = program.sharding,
          .channel = program.channel,
          .placement = program.placement,
          .edges = program.edges};
}

tl::expected<Program, std::string> lower(const Program& program) {
  if (is_lowered(program)) return program;
  Program lowered = without_lists(program);
  ListWriter writer(program);
  TurnsTaken taken = take_turns(program, writer);
  if (!taken.finished) return tl::unexpected(std::move(taken.stuck));
  lowered.ranks = std::move(writer).lists();
  // If ranks joined a collective early, the rounds do not prove that the program cannot hang. In this case
  // the check must prove it. It uses the default channels, because such a program may hang with one FIFO for
  // each rank.
  if (!taken.stuck.empty() && find_hang(lowered, {}, unit_costs(lowered)))
    return tl::unexpected(std::move(taken.stuck));
  return lowered;
}

// Computes the digest of a lowered program without storing its lists. The digest reads the whole list of one
// rank after the other. Placement rounds instead place a few actions on every rank in each round, so all
// placed actions must be stored. They are stored in a short form. The next action of the rank's own list
// takes one word, because the list's loops can produce it again. A SEND or RECV takes two words.
//
//   rank 1, lowered:  1RECV_F0 1F0 1SEND_F0   1RECV_F1 ...
//   placed:           route    own   route    route        own: the next action of the list
//   units:            0              0        1            route: edge, flow, which end
//
// Tested by digest_test.cpp.

namespace {

/// A sink of placement rounds that stores the short form.
class PlacedWords {
 public:
  PlacedWords(const Program& program, std::span<const ActionLoops> lists)
      : edges_(program), ranks_(lists.size()) {
    // In a chain each action has at most one RECV and one SEND. Unused reserved memory costs nothing, because
    // it is never touched.
    for (std::size_t rank = 0; rank < lists.size(); ++rank) {
      const auto own = static_cast<std::size_t>(lists[rank].size());
      ranks_[rank].placed.reserve(3 * own);
      ranks_[rank].units.reserve(2 * own);
    }
  }

  void compute(std::int32_t rank, std::span<const Action> group) {
    std::vector<std::uint32_t>& placed = ranks_[index(rank)].placed;
    placed.insert(placed.end(), group.size(), kOwn);
  }
  void message(const StageMessage& message, std::int32_t from_rank, std::int32_t to_rank) {
    const auto edge = static_cast<std::uint32_t>(edges_.of(edge_of(message)));
    const std::uint32_t way = 4 * edge + 2 * static_cast<std::uint32_t>(message.flow);
    ranks_[index(from_rank)].add(way, message.microbatch);
    ranks_[index(to_rank)].add(way + 1, message.microbatch);
  }
  void collective(std::int32_t rank, const Action& /*action*/) { ranks_[index(rank)].placed.push_back(kOwn); }

  /// Adds the rank's lowered list to the digest. `own` is the beginning of the rank's own list.
  void tell(std::int32_t rank, LoopCursor own, DigestOfLists& lists) const {
    const OfRank& here = ranks_[index(rank)];
    lists.begin_list(here.placed.size());
    std::size_t unit = 0;
    for (const std::uint32_t word : here.placed) {
      if (word == kOwn) {
        lists.add(*own);
        ++own;
      } else {
        lists.add(transfer_of(word, here.units[unit++]));
      }
    }
  }

 private:
  static constexpr std::uint32_t kOwn =
      0xffff'ffff;  // not a route number, because there are far fewer than 2^30 edges

  struct OfRank {
    std::vector<std::uint32_t> placed;
    std::vector<std::int32_t> units;  // the unit of each message

    void add(std::uint32_t word, std::int32_t unit) {
      placed.push_back(word);
      units.push_back(unit);
    }
  };

  /// Returns the SEND or RECV of a word, which is 4 edge + 2 flow + (0 SEND, 1 RECV).
  Action transfer_of(std::uint32_t word, std::int32_t unit) const {
    const StageEdge& edge = edges_.edges()[word / 4];
    const bool along = word % 4 < 2;
    const StageMessage message{.flow = along ? Flow::activation : Flow::gradient,
                               .from = along ? edge.from : edge.to,
                               .to = along ? edge.to : edge.from,
                               .microbatch = unit};
    return word % 2 == 0 ? send_of(message) : recv_of(message);
  }

  EdgeNumbers edges_;
  std::vector<OfRank> ranks_;
};

}  // namespace

std::optional<std::string> lowered_digest(const Program& program, std::span<const ActionLoops> lists) {
  PlacedWords words(program, lists);
  LoopHeads heads(lists);
  HandedOver inputs(program);
  const TurnsTaken taken = TurnTaking(program, heads, inputs, words).run();
  if (!taken.finished || !taken.stuck.empty()) return std::nullopt;
  DigestOfLists told(program);
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank)
    words.tell(rank, lists[index(rank)].begin(), told);
  return std::move(told).text();
}

// A RECV that is posted early can delay later transfers in its queue. This pass moves each RECV to the action
// that reads its message:
//
//   0F0 0SEND_F0 0RECV_B0 0F1 0SEND_F1 0B0   ->   0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0
//
// First, all RECVs are moved. If the result hangs or its messages cross, the RECVs in the cycle get their old
// positions again, and the check is repeated. Tested by defer_receives_test.cpp.

namespace {

/// A flag for each RECV that may move, by rank and position in the lowered list.
using Deferred = std::vector<std::vector<bool>>;

/// Returns true if `consumer` needs the message of `recv`. If several actions need it, the first one in the
/// list receives it.
bool takes(const Action& consumer, const Action& recv, RecomputeTiming recompute) {
  if (consumer.stage != recv.stage || consumer.microbatch != recv.microbatch) return false;
  return input_of(consumer.kind, recompute) == flow_of(recv.kind);
}

/// Returns one rank's list in which each deferred RECV is before the group that reads its message.
std::vector<Action> with_deferred(const std::vector<Action>& list, const std::vector<bool>& deferred,
                                  RecomputeTiming recompute) {
  std::vector<Action> result;
  // The deferred RECVs that are not in `result` yet, in list order.
  std::vector<Action> held;
  result.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (deferred[i]) {
      held.push_back(list[i]);
      continue;
    }
    const std::size_t end = opens_group(list, i) ? group_end(list, i) : i;
    for (std::size_t leaf = i; leaf < end; ++leaf) {
      const auto needed = [&](const Action& recv) { return takes(list[leaf], recv, recompute); };
      std::ranges::copy_if(held, std::back_inserter(result), needed);
      std::erase_if(held, needed);
    }
    result.push_back(list[i]);
  }
  // RECVs with messages that no action of the rank reads are appended at the end.
  result.insert(result.end(), held.begin(), held.end());
  return result;
}

Program with_deferred(const Program& lowered, const Deferred& deferred) {
  Program program = lowered;
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    program.ranks[rank] = with_deferred(lowered.ranks[rank], deferred[rank], lowered.recompute);
  }
  return program;
}

/// Returns true if both are the same action of the list. In later iterations, an action has a higher
/// microbatch number.
bool same_in_list(const Action& listed, const Action& met, std::int32_t units) {
  return listed.kind == met.kind && listed.stage == met.stage && listed.peer == met.peer &&
         listed.microbatch == met.microbatch % units;
}

/// Gives the deferred RECVs among `in_the_way` their old positions again. If none of them was deferred, does
/// this for all RECVs of one of their ranks. Returns false if no RECV has changed.
bool put_back(Deferred& deferred, const Program& lowered, const std::vector<WaitFor>& in_the_way) {
  bool changed = false;
  const auto keep = [&](const WaitFor& wait, bool whole_rank) {
    const auto rank = static_cast<std::size_t>(wait.rank);
    for (std::size_t i = 0; i < lowered.ranks[rank].size(); ++i) {
      const bool meant =
          whole_rank || same_in_list(lowered.ranks[rank][i], wait.action, lowered.unit_count());
      if (!meant || !deferred[rank][i]) continue;
      deferred[rank][i] = false;
      changed = true;
    }
  };
  for (const WaitFor& wait : in_the_way) keep(wait, false);
  // If no RECV of the cycle was moved, all RECVs of one rank get their old positions again. Each round
  // changes at least one RECV, so the loop ends, at the latest with the original lists.
  for (std::size_t i = 0; i < in_the_way.size() && !changed; ++i) keep(in_the_way[i], true);
  return changed;
}

/// Returns the actions that cause a hang or crossed messages in `candidate`. For a hang it returns the cycle,
/// which contains the RECVs that are too late. Crossed eager messages form no cycle, so it returns their
/// RECVs.
std::vector<WaitFor> obstacles(const Program& candidate, const ChannelOptions& channels,
                               const CostTable& costs) {
  const FlatProgram flat =
      flatten(candidate, costs, {.channels = channels, .iterations = std::min(candidate.iterations, 2)});
  if (auto hang = find_stall(flat, channels)) return std::move(hang->cycle);
  std::vector<WaitFor> receives;
  if (channels.eager_bytes == 0) return receives;
  for (const CrossedMessage& one : crossed_messages(candidate, channels.model)) {
    receives.push_back(
        {.rank = one.peer, .position = one.peer_position, .action = one.receive, .waits_for = {}});
  }
  return receives;
}

}  // namespace

tl::expected<Program, std::string> lower(const Program& program, const ChannelOptions& channels) {
  auto lowered = lower(program);
  if (!lowered || channels.blocking != Blocking::batched || is_lowered(program)) return lowered;
  // The sizes of messages may be unknown. Lists that do not hang without eager messages do not hang with
  // them.
  ChannelOptions strict = channels;
  strict.eager_bytes = 0;
  return defer_receives(*lowered, strict, unit_costs(*lowered));
}

Program defer_receives(const Program& lowered, const ChannelOptions& channels, const CostTable& costs) {
  Deferred deferred;
  for (const auto& list : lowered.ranks) {
    auto& of_rank = deferred.emplace_back();
    for (const Action& action : list) of_rank.push_back(is_recv(action.kind));
  }
  for (;;) {
    Program candidate = with_deferred(lowered, deferred);
    const std::vector<WaitFor> in_the_way = obstacles(candidate, channels, costs);
    if (in_the_way.empty()) return candidate;
    if (!put_back(deferred, lowered, in_the_way)) return lowered;
  }
}

}  // namespace penstock
