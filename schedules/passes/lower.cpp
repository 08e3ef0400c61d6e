// Inserts the messages into a compute program. take_turns.hpp decides the order of all actions and calls a
// sink for each of them. This file has two sinks. One writes lists for lower(), and the other stores short
// words for lowered_digest(). The last part of the file moves RECVs of a lowered program to later positions.
// Tests: take_turns_test.cpp, action_loops_test.cpp and launch_order_test.cpp of tests/schedules/.

#include "schedules/passes/passes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
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

/// A receiver of the actions that TurnTaking places. It collects the program's lists with their messages.
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
  /// Appends the SEND and the RECV of a message to the two ranks' lists at the same moment. This is the
  /// reason why lowered lists cannot hang (lower()).
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
  // If a rank joined a collective early, the order of the rounds does not prove that the program cannot hang.
  // find_hang() must then check it. It uses the default channels, because such a program may hang with one
  // FIFO for each rank.
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
// Tests: tests/schedules/action_loops_test.cpp.

namespace {

/// A receiver of the actions that TurnTaking places. It stores each action in a short form (a word).
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

  /// Adds the lowered list of the rank to the digest. `own` points to the beginning of the rank's list of
  /// compute actions.
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
  // A value that is no number of a route, because there are far fewer than 2^30 edges.
  static constexpr std::uint32_t kOwn = 0xffff'ffff;

  struct OfRank {
    std::vector<std::uint32_t> placed;
    std::vector<std::int32_t> units;  // the microbatch (or slice) of each message

    void add(std::uint32_t word, std::int32_t unit) {
      placed.push_back(word);
      units.push_back(unit);
    }
  };

  /// Returns the SEND or RECV that a word stands for. The word is 4 edge + 2 flow + (0 SEND, 1 RECV).
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
// positions again, and the check is repeated. Tests: tests/schedules/launch_order_test.cpp.

namespace {

/// A flag for each RECV that may move to a later position, by rank and position in the lowered list.
using Deferred = std::vector<std::vector<bool>>;

/// Returns true if `consumer` needs the message of `recv`. If several actions need it, the first one in the
/// list waits for it.
bool takes(const Action& consumer, const Action& recv, RecomputeTiming recompute) {
  if (consumer.stage != recv.stage || consumer.microbatch != recv.microbatch) return false;
  return input_of(consumer.kind, recompute) == flow_of(recv.kind);
}

/// Returns the list of one rank in which each deferred RECV is directly before the group that reads its
/// message.
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

/// Returns true if `met`, an action of any iteration, is the action `listed` of the list. In later
/// iterations, the action has a higher microbatch number. `units` is the number of units in one iteration.
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

Program defer_receives(const Program& lowered, const ChannelOptions& channels, const CostTable& costs) {
  Deferred deferred;
  for (const auto& list : lowered.ranks) {
    auto& of_rank = deferred.emplace_back();
    // A RECV of a stated group stays in its group.
    for (std::size_t i = 0; i < list.size(); ++i)
      of_rank.push_back(is_recv(list[i].kind) && !is_grouped_transfer(list, i));
  }
  for (;;) {
    Program candidate = with_deferred(lowered, deferred);
    const std::vector<WaitFor> in_the_way = obstacles(candidate, channels, costs);
    if (in_the_way.empty()) return candidate;
    if (!put_back(deferred, lowered, in_the_way)) return lowered;
  }
}

// With batched transfers, a rank waits at a group until all its messages have ended. A RECV directly before
// its consumer may then come too late, because its sender also waits at a group:
//
//   rank 0   2F1 (2SEND_F1) 0F2 (2RECV_B0) 2B0      rank 0 waits for 3RECV_F1, and rank 1 for 2RECV_B0
//   rank 1   3B0 (3SEND_B0 3RECV_F1) 3F1
//
//   rank 0   2F1 (2SEND_F1 2RECV_B0) 0F2 2B0        what rank 0 posts instead, as Megatron-LM does
//
// Therefore this pass walks through the lists. When no rank can continue, it finds the SENDs that have no
// RECV yet. It adds each missing RECV to the group at which the receiver waits. Tested by
// transfer_groups_test.cpp of tests/sim/.

namespace {

bool has_several_stages(const std::vector<Action>& list) {
  return std::ranges::any_of(list, [&](const Action& action) { return action.stage != list.front().stage; });
}

/// The sizes of blocks. A block is a sequence of compute actions that a rank runs without transfers between
/// them.
enum class Blocks : std::uint8_t {
  single,  // each one alone
  pairs,   // an F and the B or I after it, as in Megatron-LM's interleaved schedule
};

/// A writer of new lists for a lowered program. Each RECV comes as late as batched transfers allow.
class BatchedReceives {
 public:
  /// Keeps a reference to the program, which must outlive this object.
  BatchedReceives(const Program& lowered, Blocks blocks)
      : program_(lowered),
        blocks_(blocks),
        edges_(lowered),
        units_(index(lowered.unit_count())),
        ranks_(lowered.ranks.size()) {
    messages_.resize(2 * edges_.size() * units_);
    first_input_.assign(2 * index(lowered.stage_count()) * units_, kNone);
    std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> newest;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const Action& action : lowered.ranks[rank]) note(action, static_cast<std::int32_t>(rank), newest);
    }
  }

  /// Returns the lists, or nothing if some ranks wait for each other.
  std::optional<std::vector<std::vector<Action>>> run() && {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) wake(static_cast<std::int32_t>(rank));
    do {
      while (!awake_.empty()) {
        const std::int32_t rank = awake_.back();
        awake_.pop_back();
        advance(rank);
      }
    } while (receive_early());
    std::vector<std::vector<Action>> lists;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!ranks_[rank].open.empty() || ranks_[rank].position < program_.ranks[rank].size())
        return std::nullopt;
      lists.push_back(std::move(ranks_[rank].list));
    }
    return lists;
  }

 private:
  struct Message {
    std::int32_t from_rank = kNone;
    std::int32_t to_rank = kNone;
    std::int32_t before = kNone;      // the SEND before it from the same rank to the same rank
    std::int32_t next_input = kNone;  // the next message with the same consumer
    bool sent = false;
    bool received = false;
  };
  struct Rank {
    std::size_t position = 0;        // position in the rank's lowered list
    bool stands = false;             // true if the rank has posted everything before `position`
    std::vector<std::int32_t> open;  // messages of the group at which the rank waits
    std::vector<Action> held;        // the SENDs of the block that has run
    std::vector<Action> list;
  };

  std::int32_t id_of(const Action& transfer) const {
    const StageMessage what = message_of(transfer);
    const std::size_t route = 2 * edges_.of(edge_of(what)) + static_cast<std::size_t>(what.flow);
    return static_cast<std::int32_t>(route * units_ + index(what.microbatch));
  }
  Message& message(std::int32_t id) { return messages_[index(id)]; }
  std::int32_t& input(std::int32_t stage, std::int32_t unit, Flow flow) {
    return first_input_[2 * (index(stage) * units_ + index(unit)) + static_cast<std::size_t>(flow)];
  }

  void note(const Action& action, std::int32_t rank,
            std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t>& newest) {
    if (!is_transfer(action.kind)) return;
    const std::int32_t id = id_of(action);
    if (is_recv(action.kind)) {
      message(id).to_rank = rank;
      message(id).next_input =
          std::exchange(input(action.stage, action.microbatch, flow_of(action.kind)), id);
      return;
    }
    message(id).from_rank = rank;
    const std::int32_t to_rank = program_.placement.rank_of(action.peer, action.microbatch);
    message(id).before = std::exchange(newest.try_emplace({rank, to_rank}, kNone).first->second, id);
  }

  void wake(std::int32_t rank) { awake_.push_back(rank); }

  /// Continues in the list of a rank until the rank must wait at a group of transfers. The other ends of
  /// these transfers are not posted yet.
  void advance(std::int32_t rank) {
    Rank& here = ranks_[index(rank)];
    const std::vector<Action>& own = program_.ranks[index(rank)];
    for (;;) {
      if (!here.stands) post(rank);
      here.stands = true;
      std::erase_if(here.open, [&](std::int32_t id) { return message(id).sent && message(id).received; });
      if (!here.open.empty() || here.position == own.size()) return;
      here.stands = false;
      run_block(here, own);
    }
  }

  /// Returns the position after the block of compute actions that begins at `position`. A block runs
  /// without transfers between its actions.
  std::size_t block_end(const std::vector<Action>& own, std::size_t position) const {
    const std::size_t end = group_end(own, position);
    if (blocks_ == Blocks::single || own[position].kind != ActionKind::forward) return end;
    std::size_t next = end;
    while (next < own.size() && !is_compute(own[next].kind)) ++next;
    return next < own.size() && makes_input_gradient(own[next].kind) ? group_end(own, next) : end;
  }

  /// Moves a block of compute actions to the new list. Its SENDs are posted after it.
  void run_block(Rank& here, const std::vector<Action>& own) {
    for (const std::size_t end = block_end(own, here.position); here.position < end; ++here.position) {
      const Action& action = own[here.position];
      if (is_send(action.kind)) here.held.push_back(action);
      if (!is_transfer(action.kind)) here.list.push_back(action);
    }
  }

  void send(Rank& here, const Action& action) {
    const std::int32_t id = id_of(action);
    here.list.push_back(action);
    here.open.push_back(id);
    message(id).sent = true;
    if (message(id).received) wake(message(id).to_rank);
  }

  /// Posts one group of transfers: the SENDs up to the next block of compute actions, and the RECVs that
  /// this block needs.
  void post(std::int32_t rank) {
    Rank& here = ranks_[index(rank)];
    const std::vector<Action>& own = program_.ranks[index(rank)];
    for (const Action& action : here.held) send(here, action);
    here.held.clear();
    for (; here.position < own.size() && !is_compute(own[here.position].kind); ++here.position) {
      const Action& action = own[here.position];
      if (is_send(action.kind)) send(here, action);
      if (!is_transfer(action.kind)) here.list.push_back(action);
    }
    if (here.position == own.size()) return;
    for (std::size_t leaf = here.position; leaf < block_end(own, here.position); ++leaf) {
      const auto flow = input_of(own[leaf].kind, program_.recompute);
      if (!flow) continue;
      std::int32_t id = input(own[leaf].stage, own[leaf].microbatch, *flow);
      for (; id != kNone; id = message(id).next_input) receive(id);
    }
  }

  /// Posts the RECV of a message. Before it, posts the RECVs of all earlier messages between the same
  /// ranks, because the k-th SEND meets the k-th RECV.
  void receive(std::int32_t id) {
    std::vector<std::int32_t> missing;
    for (; id != kNone && !message(id).received; id = message(id).before) missing.push_back(id);
    for (; !missing.empty(); missing.pop_back()) {
      Message& next = message(missing.back());
      next.received = true;
      Rank& receiver = ranks_[index(next.to_rank)];
      receiver.open.push_back(missing.back());
      receiver.list.push_back(recv_at(missing.back()));
      if (next.sent) wake(next.from_rank);
    }
  }

  Action recv_at(std::int32_t id) const {
    const std::size_t route = index(id) / units_;
    const StageEdge& edge = edges_.edges()[route / 2];
    const bool along = route % 2 == 0;
    return recv_of({.flow = along ? Flow::activation : Flow::gradient,
                    .from = along ? edge.from : edge.to,
                    .to = along ? edge.to : edge.from,
                    .microbatch = static_cast<std::int32_t>(index(id) % units_)});
  }

  /// Posts the RECVs of all SENDs for which ranks wait. Returns false if there are none.
  bool receive_early() {
    std::vector<std::int32_t> early;
    for (const Rank& rank : ranks_) {
      for (const std::int32_t id : rank.open) {
        if (message(id).sent && !message(id).received) early.push_back(id);
      }
    }
    for (const std::int32_t id : early) {
      receive(id);
      wake(message(id).to_rank);
    }
    return !early.empty();
  }

  const Program& program_;
  Blocks blocks_;
  EdgeNumbers edges_;
  std::size_t units_;
  std::vector<Message> messages_;  // message of each edge, kind of data and microbatch (or slice)
  // First message of each consumer, by stage, microbatch (or slice) and kind of data.
  std::vector<std::int32_t> first_input_;
  std::vector<Rank> ranks_;
  std::vector<std::int32_t> awake_;
};

}  // namespace

namespace {

/// Returns the makespan of the program if F, I, W and R take 1, B takes 2, and messages take no time.
/// Returns nothing if the program hangs.
std::optional<Ns> unit_makespan(const Program& lowered, const ChannelOptions& channels) {
  const FlatProgram flat = flatten(lowered, unit_costs(lowered),
                                   {.channels = channels, .iterations = std::min(lowered.iterations, 2)});
  WalkDurations durations;
  durations.compute.assign(flat.ops.size(), 0);
  for (std::int32_t p = 0; p < flat.position_count(); ++p) {
    if (flat.ops[index(p)] != FlatOp::compute) continue;
    for (std::int32_t leaf = p; leaf < flat.group_end(p); ++leaf) {
      const ActionKind kind = flat.actions[index(leaf)].kind;
      durations.compute[index(p)] += kind == ActionKind::backward ? 2 : (kind == ActionKind::step ? 0 : 1);
    }
  }
  const auto times = walk(flat, durations, channels);
  return times ? std::optional(last_end(*times)) : std::nullopt;
}

}  // namespace

tl::expected<Program, std::string> lower(const Program& program, const ChannelOptions& channels) {
  auto lowered = lower(program);
  if (!lowered || channels.blocking != Blocking::batched || is_lowered(program)) return lowered;
  // The sizes of messages may be unknown here, but lists that do not hang without eager messages do not hang
  // with them.
  ChannelOptions strict = channels;
  strict.eager_bytes = 0;
  std::optional<Program> best;
  std::optional<Ns> shortest;
  const auto try_blocks = [&](Blocks blocks) {
    auto lists = BatchedReceives(*lowered, blocks).run();
    if (!lists) return;
    Program late = without_lists(*lowered);
    late.ranks = *std::move(lists);
    const std::optional<Ns> takes = unit_makespan(late, strict);
    if (!takes || (shortest && *takes >= *shortest)) return;
    shortest = takes;
    best = std::move(late);
  };
  try_blocks(Blocks::single);
  // Blocks of an F and a B may help if ranks have several stages. All ranks may then run an F, or a B, at the
  // same time. With one stage on each rank, a rank runs an F while its neighbours run a B.
  if (std::ranges::any_of(lowered->ranks, has_several_stages)) try_blocks(Blocks::pairs);
  // Collectives or a limited capacity may need RECVs at their early positions, which cannot hang.
  return best ? *std::move(best) : *std::move(lowered);
}

// Transfers between the same two actions become groups:
//
//   rank 1   1F1 1SEND_F1 1RECV_B0 1B0   ->   1F1 (1SEND_F1;1RECV_B0)GROUP 1B0
//
// Tested by transfer_groups_test.cpp of tests/sim/.

namespace {

/// Returns true if Megatron-LM posts the transfers in `run` together. `has_one_stage` is true if the rank
/// has only one stage.
bool is_posted_together(std::span<const Action> run, bool has_one_stage) {
  if (run.size() < 2) return false;
  const auto carries = [&](Flow flow) {
    return std::ranges::any_of(run, [flow](const Action& action) { return flow_of(action.kind) == flow; });
  };
  return !has_one_stage || (carries(Flow::activation) && carries(Flow::gradient));
}

/// Returns the transfers of a run by direction and by the rank at the other end, in list order.
std::map<std::pair<bool, std::int32_t>, std::vector<Action>> messages_by_peer(const Placement& placement,
                                                                              std::span<const Action> run) {
  std::map<std::pair<bool, std::int32_t>, std::vector<Action>> messages;
  for (const Action& action : run)
    messages[{is_send(action.kind), placement.rank_of(action.peer, action.microbatch)}].push_back(action);
  return messages;
}

/// Puts transfers into the order in which a rank of Megatron-LM posts single messages (_p2p_ops). Odd ranks
/// receive first, so that each SEND meets its RECV:
///
///   even rank   SEND_F RECV_F SEND_B RECV_B
///   odd rank    RECV_F SEND_F RECV_B SEND_B
///
/// If two messages from or to one rank would change places, nothing is moved, because the other rank has them
/// in the present order.
void order_single_messages(const Placement& placement, std::span<Action> run, bool is_odd) {
  std::vector<Action> ordered(run.begin(), run.end());
  std::ranges::stable_sort(ordered, {}, [is_odd](const Action& action) {
    return std::pair(flow_of(action.kind) == Flow::gradient, is_send(action.kind) == is_odd);
  });
  if (messages_by_peer(placement, ordered) == messages_by_peer(placement, run))
    std::ranges::copy(ordered, run.begin());
}

}  // namespace

Program group_transfers(Program lowered, Posting posting) {
  for (std::size_t rank = 0; rank < lowered.ranks.size(); ++rank) {
    std::vector<Action>& list = lowered.ranks[rank];
    const bool several = has_several_stages(list);
    for (std::size_t begin = 0; begin < list.size(); ++begin) {
      std::size_t end = begin;
      while (end < list.size() && is_transfer(list[end].kind)) ++end;
      const auto run = std::span(list).subspan(begin, end - begin);
      const bool is_single = posting == Posting::megatron_overlap;
      if (is_single) order_single_messages(lowered.placement, run, rank % 2 == 1);
      const bool joins = posting == Posting::batched || (!is_single && is_posted_together(run, !several));
      for (std::size_t i = 0; joins && i + 1 < run.size(); ++i) run[i].overlaps_next = true;
      begin = end;
    }
  }
  return lowered;
}

}  // namespace penstock
