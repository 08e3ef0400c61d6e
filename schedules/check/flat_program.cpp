// Resolves all references in a program once, because engines and checks read it many times. It reads each
// list once. It joins each SEND with its RECV, and the members of each collective. It links each position
// with the positions for which it waits, and each message with the next one in its queues. These are found
// in tables. The index of a table is edge, direction and number, or stage and number:
//
//   SEND, RECV  ->  the message of its edge and number, made by whichever end comes first
//   F, B, I     ->  the earlier RECVs of its stage and number, a list through next_wait
//   SEND        ->  the position of the action of its stage and number that produces it
//
// The placement determines the queue of a message on each rank, so each end is processed alone. walk.hpp
// executes the result. Tested by channel_check_test.cpp and all engine tests of sim/.

#include "schedules/check/flat_program.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "schedules/check/launch_lists.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// Returns the operation of the flat program that an action becomes. `before` is the previous action in its
/// list, or null for the first action.
FlatOp op_of(const Action& action, const Action* before) {
  // The first action of a group represents the whole group.
  if (is_compute(action.kind))
    return before != nullptr && before->overlaps_next ? FlatOp::leaf : FlatOp::compute;
  if (is_send(action.kind)) return FlatOp::send;
  if (is_recv(action.kind)) return FlatOp::recv;
  if (is_wait(action.kind)) return FlatOp::wait;
  const bool is_joined = is_collective(action.kind) || is_host_copy(action.kind);
  return is_joined ? FlatOp::collective : FlatOp::reshard;
}

/// The state of flatten() while it reads the list of one rank.
struct RankScan {
  std::int32_t rank = 0;
  std::size_t barriers_seen = 0;
  std::int32_t last_collective = kNone;
  // Last copy to the host, and last copy back; if the link is half duplex, only the first entry is used.
  std::array<std::int32_t, 2> last_copy{kNone, kNone};
  std::int32_t head = kNone;  // position of the last group of compute actions
  // Position of this group, or of a barrier, a WAIT or a group of transfers after it.
  std::int32_t newest = kNone;
  // The group of transfers that is open, and its last transfer so far. kNone if no group is open.
  std::int32_t open_group = kNone;
  std::int32_t last_grouped = kNone;
};

/// The state of one stage's collectives of one kind (UNSHARD or REDUCE_GRAD) while a list is read. It has the
/// latest collective and the number so far.
struct CollectiveScan {
  // The position of the latest collective, or kNone if an action already waits for it.
  std::int32_t newest = kNone;
  std::size_t seen = 0;
};

/// The positions that belong to one flow (activations or gradients) of one stage and one microbatch number:
/// the RECVs and the producer.
struct StageFlow {
  std::int32_t recvs = kNone;     // RECVs that no action waits for yet, a list linked by next_wait
  std::int32_t producer = kNone;  // position of the action that produces the message
};

/// The end of a FIFO queue of the rank that is read now. An eager message does not wait in the queue, and it
/// does not delay other eager messages. The next message that is not eager waits for all eager messages
/// before it:
///
///   m0 (e1 e2) m3       m3 waits for m0, e1 and e2; e1 and e2 wait for nothing here
///
struct FifoTail {
  std::int32_t last = kNone;       // the last message that waits in the queue
  std::int32_t unordered = kNone;  // eager messages after it, a list linked by `previous_unordered`
  bool last_sends = false;         // true if this rank sends `last`
};

/// Features that only some programs have. They are found before the lists are flattened.
struct ListFacts {
  bool groups = false;  // true if some list states a group of transfers
  bool waits = false;   // true if some list has a WAIT
};

/// Reads all lists once. Returns whether any list states a group of transfers, and whether any list has a
/// WAIT.
ListFacts facts_of_lists(const Program& program) {
  ListFacts facts;
  for (const std::vector<Action>& list : program.ranks) {
    for (const Action& action : list) {
      facts.groups |= action.overlaps_next && is_transfer(action.kind);
      facts.waits |= is_wait(action.kind);
    }
  }
  return facts;
}

class Flattener {
 public:
  Flattener(const Program& program, const CostTable& costs, const FlattenOptions& options)
      : program_(program),
        costs_(costs),
        channels_(options.channels),
        iterations_(options.iterations),
        edges_(program),
        units_(program.unit_count()),
        numbers_(index(units_) * index(iterations_)) {
    flat_.rank_count = program.rank_count();
    flat_.has_launches = !costs.launch.is_free();
    flat_.most_ahead = costs.launch.most_ahead;
    const ListFacts facts = facts_of_lists(program);
    has_groups_ = channels_.waits() || facts.groups;
    flat_.has_waits = facts.waits;
    flat_.all_wait = channels_.waits();
    // If a rank waits for all its transfers, its groups run one after another. Then only messages of one
    // group meet in a queue (needs.hpp).
    queues_ = channels_;
    if (has_groups_ && channels_.waits()) queues_.blocking = Blocking::batched;
    for (const CrossedMessage& one : options.crossed)
      met_.emplace(message_of(one.receive), recv_of(message_of(one.send)));
  }

  FlatProgram run() {
    reserve();
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) lay_out(rank);
    flat_.rank_begin.push_back(flat_.position_count());
    // Queues are limited last, because each RECV must already be joined with the action that reads it.
    if (channels_.capacity > 0) limit_queues();
    if (has_followers(flat_, channels_)) count_followers();
    return std::move(flat_);
  }

 private:
  void reserve() {
    std::size_t total = program_.barrier ? index(iterations_ - 1) * program_.ranks.size() : 0;
    for (const auto& list : program_.ranks) total += list.size() * index(iterations_);
    flat_.actions.reserve(total);
    flat_.ops.reserve(total);
    flat_.message.assign(total, kNone);
    flat_.next_wait.assign(total, kNone);
    flat_.messages.reserve(total / 2);  // each message has at least two actions
    consumer_.assign(channels_.capacity > 0 ? total : 0, kNone);
    const bool late = program_.recompute == RecomputeTiming::late;
    if (channels_.capacity > 0 && late) backward_.assign(index(program_.stage_count()) * numbers_, kNone);

    transfers_.assign(2 * edges_.size() * numbers_, kNone);
    bytes_.assign(2 * edges_.size(), kUnknown);
    of_stage_.resize(2 * index(program_.stage_count()) * numbers_);
    steps_.assign(index(program_.stage_count()), 0);
    of_group_.resize(2 * index(program_.stage_count()));
    collectives_.resize(2 * index(program_.stage_count()));
    tails_.resize(queue_count(queues_, flat_.rank_count, edges_.size()));
    if (has_groups_) flat_.transfer_group.assign(total, kNone);
  }

  // --- lists ------------------------------------------------------------------------------------

  void lay_out(std::int32_t rank) {
    const std::vector<Action>& list = program_.ranks[index(rank)];
    RankScan scan{.rank = rank};
    // Each iteration increases the weight versions of a stage by the stage's number of STEPs in the rank's
    // list.
    if (iterations_ > 1) count_steps(list, 1);
    flat_.rank_begin.push_back(flat_.position_count());
    for (std::int32_t iteration = 0; iteration < iterations_; ++iteration) {
      if (iteration > 0 && program_.barrier) {
        // A barrier has no action, but an empty entry keeps the vectors equally long.
        flat_.actions.emplace_back();
        scan.newest = push(FlatOp::barrier);
        join_collective(scan.newest, barriers_, scan.barriers_seen++);
      }
      scan.open_group = kNone;  // a group ends with its iteration
      const Action* before = nullptr;
      for (const Action& action : list) {
        flat_.actions.push_back(action);
        if (iteration > 0) flat_.actions.back() = of_iteration(action, iteration, units_, steps_);
        const std::int32_t position = push(op_of(action, before));
        if (has_groups_) put_in_group(scan, position, before);
        place(scan, position);
        before = &action;
      }
    }
    forget(list);
  }

  std::int32_t push(FlatOp op) {
    flat_.ops.push_back(op);
    return flat_.position_count() - 1;
  }

  /// Adds a transfer to the group of transfers that is open, or opens a group. A compute action or a WAIT
  /// closes the group. Collectives and RESHARDs belong to a group if transfers of the group are on both
  /// sides of them. A group that the list itself states is not changed. `before` is the previous action in
  /// the list, or null.
  void put_in_group(RankScan& scan, std::int32_t position, const Action* before) {
    const FlatOp op = flat_.ops[index(position)];
    if (op == FlatOp::compute || op == FlatOp::leaf || op == FlatOp::wait) scan.open_group = kNone;
    if (op != FlatOp::send && op != FlatOp::recv) return;
    const bool goes_on = flat_.actions[index(position)].overlaps_next;
    const bool continues = before != nullptr && before->overlaps_next;
    const bool is_stated = goes_on || continues;
    if (!is_stated && !channels_.waits()) return;
    if (!continues && (is_stated || channels_.blocking == Blocking::each || scan.open_group == kNone)) {
      scan.open_group = position;
      scan.last_grouped = position - 1;
    }
    const auto group = flat_.transfer_group.begin();
    std::fill(group + scan.last_grouped + 1, group + position + 1, scan.open_group);
    scan.last_grouped = position;
    // At this group the rank waits for its transfers. A SEND after the group therefore does not start when
    // its producer ends, but later.
    if (flat_.waits_in_group(position)) scan.newest = position;
    if (is_stated && !goes_on) scan.open_group = kNone;
  }

  void count_steps(const std::vector<Action>& list, std::int32_t by) {
    for (const Action& action : list) {
      if (action.kind == ActionKind::step) steps_[index(action.stage)] += by;
    }
  }

  /// Resets the tables of stages and queues for the next rank. It resets only the entries that were used,
  /// because a table can have as many entries as there are stages or ranks.
  void forget(const std::vector<Action>& list) {
    if (iterations_ > 1) count_steps(list, -1);
    for (const std::size_t queue : used_queues_) tails_[queue] = {};
    used_queues_.clear();
    if (!has_collectives()) return;
    for (const Action& action : list) {
      if (is_collective(action.kind)) collectives_[group_of(action)] = {};
    }
  }

  /// Connects a position of the list with its message, with the positions for which it waits, and with the
  /// positions that wait for it.
  void place(RankScan& scan, std::int32_t position) {
    const Action& action = flat_.actions[index(position)];
    switch (flat_.ops[index(position)]) {
      case FlatOp::compute:
        scan.head = scan.newest = position;
        [[fallthrough]];  // the first action of a group waits for messages, like the other actions
      case FlatOp::leaf:
        hang_onto(scan.head, action);
        break;
      case FlatOp::send:
      case FlatOp::recv:
        place_transfer(scan, position, action);
        break;
      case FlatOp::collective:
        place_collective(scan, position, action);
        break;
      case FlatOp::wait:
        place_wait(scan, position, action);
        break;
      case FlatOp::reshard:
      case FlatOp::barrier:
        break;
    }
  }

  /// Returns the entry of a stage, a microbatch number and a flow. The entries of both flows are adjacent
  /// in memory, because an F uses one and its B soon uses the other.
  StageFlow& of_stage(std::int32_t stage, std::int32_t number, Flow flow) {
    return of_stage_[2 * (index(stage) * numbers_ + index(number)) + static_cast<std::size_t>(flow)];
  }

  // --- messages ---------------------------------------------------------------------------------

  std::int32_t new_message(const FlatMessage& message) {
    flat_.messages.push_back(message);
    if (channels_.eager_bytes > 0) previous_unordered_.push_back(kNone);
    return static_cast<std::int32_t>(flat_.messages.size()) - 1;
  }

  /// Creates a message and returns its number. Either end may come first in the lists, so the function sets
  /// only the fields that do not depend on the end.
  std::int32_t new_transfer(const StageMessage& what, std::size_t edge, const Action& action) {
    // Microbatch numbers continue from one iteration to the next, but the placement knows only the numbers of
    // one iteration.
    const std::int32_t unit = what.microbatch < units_ ? what.microbatch : what.microbatch % units_;
    const Bytes bytes = bytes_of(action, 2 * edge + static_cast<std::size_t>(what.flow));
    return new_message({.from_rank = program_.placement.rank_of(what.from, unit),
                        .to_rank = program_.placement.rank_of(what.to, unit),
                        .eager = bytes < channels_.eager_bytes,
                        .bytes = bytes});
  }

  Bytes bytes_of(const Action& transfer, std::size_t route) {
    // If all microbatches have equal costs, all messages of an edge in one direction have the same size. It
    // is computed once.
    if (costs_.microbatches_differ()) return transfer_bytes(costs_, edges_, transfer);
    if (bytes_[route] == kUnknown) bytes_[route] = transfer_bytes(costs_, edges_, transfer);
    return bytes_[route];
  }

  void place_transfer(const RankScan& scan, std::int32_t position, const Action& action) {
    const Action moved = met_.empty() || is_send(action.kind) ? action : met_by(action);
    const StageMessage what = message_of(moved);
    const std::size_t edge = edge_number(moved, what);
    const std::size_t route = 2 * edge + static_cast<std::size_t>(what.flow);
    std::int32_t& id = transfers_[route * numbers_ + index(moved.microbatch)];
    if (id == kNone) id = new_transfer(what, edge, moved);
    flat_.message[index(position)] = id;
    FlatMessage& transfer = flat_.messages[index(id)];
    StageFlow& at_stage = of_stage(action.stage, action.microbatch, flow_of(action.kind));
    const bool sends = is_send(action.kind);
    if (sends) {
      transfer.first = position;
      transfer.producer = at_stage.producer;
      // If no other action ran after the producer, the rank reaches the SEND exactly when the producer ends.
      transfer.late = at_stage.producer != kNone && at_stage.producer != scan.newest;
      if (flat_.has_waits) {
        const auto sent = sends_.try_emplace(key_of(action), kNone).first;
        flat_.next_wait[index(position)] = std::exchange(sent->second, position);
      }
    } else {
      transfer.recv = position;
      // The RECV is added to the list of RECVs that no action waits for yet. The next action that needs them
      // takes the whole list.
      flat_.next_wait[index(position)] = std::exchange(at_stage.recvs, position);
    }
    const bool waits_its_turn = sends || !transfer.eager;
    if (waits_its_turn) ++transfer.pending;       // the rank must also reach this end
    if (has_followers(flat_, channels_)) return;  // count_followers() counts these waits later
    enqueue(queue_of(queues_, end_on(scan.rank, transfer, edge, what.flow)), id, sends, waits_its_turn);
  }

  /// Returns the RECV whose message `receive` gets. It is `receive` itself unless messages cross. The list of
  /// crossed messages uses the microbatch numbers of one iteration. The numbers of actions continue from one
  /// iteration to the next.
  Action met_by(const Action& receive) const {
    StageMessage own = message_of(receive);
    const std::int32_t first_of_pass = own.microbatch - own.microbatch % units_;
    own.microbatch -= first_of_pass;
    const auto found = met_.find(own);
    if (found == met_.end()) return receive;
    Action met = found->second;
    met.microbatch += first_of_pass;
    return met;
  }

  /// Returns the number of the edge over which the message goes. The previous SEND or RECV of the same kind
  /// usually used the same edge, so this edge is cached.
  std::size_t edge_number(const Action& action, const StageMessage& what) {
    RecentEdge& recent = recent_edges_[static_cast<std::size_t>(action.kind) -
                                       static_cast<std::size_t>(ActionKind::send_forward)];
    if (recent.stage != action.stage || recent.peer != action.peer)
      recent = {.stage = action.stage, .peer = action.peer, .edge = edges_.of(edge_of(what))};
    return recent.edge;
  }

  /// Returns the index of the counter for collectives of this kind and stage. UNSHARDs and REDUCE_GRADs are
  /// counted separately. The k-th collective of a kind on one member belongs to the k-th one on all other
  /// members.
  static std::size_t group_of(const Action& collective) {
    return 2 * index(collective.stage) + (collective.kind == ActionKind::unshard ? 1 : 0);
  }

  void place_collective(RankScan& scan, std::int32_t position, const Action& action) {
    if (is_host_copy(action.kind)) return place_host_copy(scan, position, action);
    CollectiveScan& of_kind = collectives_[group_of(action)];
    join_collective(position, of_group_[group_of(action)], of_kind.seen++);
    of_kind.newest = position;
    follow_in_queue(scan.last_collective, position);
  }

  /// Appends a collective or copy to the queue that ends with `last`. The appended one starts after the one
  /// at `last` has ended.
  void follow_in_queue(std::int32_t& last, std::int32_t position) {
    if (last != kNone) {
      flat_.next_collective[index(last)] = position;
      ++flat_.messages[index(flat_.message[index(position)])].pending;
    }
    last = position;
  }

  /// Enters an OFFLOAD or RELOAD in its queue. A RELOAD starts after its OFFLOAD has ended. The B or I of the
  /// microbatch waits for the RELOAD as it waits for a RECV.
  void place_host_copy(RankScan& scan, std::int32_t position, const Action& action) {
    std::vector<std::int32_t> alone;
    join_collective(position, alone, 0);
    const bool is_back = action.kind == ActionKind::reload;
    follow_in_queue(scan.last_copy[is_back && costs_.host.duplex ? 1 : 0], position);
    const std::size_t key = index(action.stage) * numbers_ + index(action.microbatch);
    if (!is_back) {
      offloads_[key] = flat_.message[index(position)];
      return;
    }
    if (const auto copied = offloads_.find(key); copied != offloads_.end()) {
      flat_.messages[index(copied->second)].next_at_receiver = flat_.message[index(position)];
      ++flat_.messages[index(flat_.message[index(position)])].pending;
    }
    StageFlow& at_stage = of_stage(action.stage, action.microbatch, Flow::gradient);
    flat_.next_wait[index(position)] = std::exchange(at_stage.recvs, position);
  }

  /// Makes the action at `position` a member of the collective or barrier with number `occurrence` in
  /// `of_group`. Creates this collective if it does not exist yet. `next_member` links its members to a list.
  void join_collective(std::int32_t position, std::vector<std::int32_t>& of_group, std::size_t occurrence) {
    if (!has_collectives()) {
      // The tables are created for the first collective, because most programs have none.
      flat_.next_member.assign(flat_.message.size(), kNone);
      flat_.next_collective.assign(flat_.message.size(), kNone);
    }
    if (occurrence == of_group.size()) of_group.push_back(new_message({}));
    FlatMessage& collective = flat_.messages[index(of_group[occurrence])];
    flat_.message[index(position)] = of_group[occurrence];
    flat_.next_member[index(position)] = collective.first;
    collective.first = position;
    ++collective.pending;
  }

  /// Returns true if the lists that were read so far contain a collective or barrier.
  bool has_collectives() const { return !flat_.next_member.empty(); }

  // --- waits ------------------------------------------------------------------------------------

  /// Returns the key in `sends_` for a SEND or for a WAIT for SENDs. A SEND and the WAIT for it have equal
  /// keys.
  std::size_t key_of(const Action& action) const {
    const bool activation =
        action.kind == ActionKind::send_forward || action.kind == ActionKind::wait_send_forward;
    return 2 * (index(action.stage) * numbers_ + index(action.microbatch)) + (activation ? 0 : 1);
  }

  /// Makes a WAIT wait for the messages or the reduction that it names. They are the SENDs of its stage and
  /// microbatch, or the stage's last REDUCE_GRAD if no other action waits for it.
  void place_wait(RankScan& scan, std::int32_t position, const Action& action) {
    scan.newest = position;  // the rank waits here, so a SEND after it is later than its producer's end
    std::int32_t& waits = flat_.next_wait[index(position)];
    if (!is_send_wait(action.kind)) {
      CollectiveScan& reductions =
          collectives_[group_of({.kind = ActionKind::reduce_grad, .stage = action.stage})];
      if (reductions.newest == kNone) return;
      flat_.next_wait[index(reductions.newest)] = kNone;
      waits = std::exchange(reductions.newest, kNone);
      return;
    }
    const auto sent = sends_.find(key_of(action));
    if (sent == sends_.end()) return;
    waits = std::exchange(sent->second, kNone);
    for (std::int32_t send = waits; send != kNone; send = flat_.next_wait[index(send)])
      flat_.messages[index(flat_.message[index(send)])].send_awaited = true;
  }

  /// Makes the group of actions at `head` wait for everything that `action`, one of its members, needs.
  void hang_onto(std::int32_t head, const Action& action) {
    if (has_collectives()) hang_collective_onto(head, action);
    if (action.microbatch == kNoMicrobatch) return;
    if (const auto made = output_of(action.kind))
      of_stage(action.stage, action.microbatch, *made).producer = head;
    if (const auto taken = input_of(action.kind, program_.recompute))
      take_recvs(head, of_stage(action.stage, action.microbatch, *taken).recvs);
    if (!backward_.empty() && makes_input_gradient(action.kind))
      backward_[index(action.stage) * numbers_ + index(action.microbatch)] = head;
  }

  void hang_collective_onto(std::int32_t head, const Action& action) {
    for (const ActionKind awaited : collectives_before(action.kind, program_.sharding)) {
      std::int32_t& newest = collectives_[group_of({.kind = awaited, .stage = action.stage})].newest;
      // Only the first action that needs the collective waits for it. Later actions come after the first one
      // in program order.
      if (newest == kNone) continue;
      flat_.next_wait[index(newest)] = std::exchange(flat_.next_wait[index(head)], newest);
      newest = kNone;
    }
  }

  /// Moves all RECVs in the list `recvs` to the waits of the group at `head`. Only the first action that
  /// needs a RECV waits for it. A late R (recomputation) comes before its B, so the R waits for the
  /// gradient.
  void take_recvs(std::int32_t head, std::int32_t& recvs) {
    while (recvs != kNone) {
      const std::int32_t recv = std::exchange(recvs, flat_.next_wait[index(recvs)]);
      flat_.messages[index(flat_.message[index(recv)])].awaited = true;
      flat_.next_wait[index(recv)] = std::exchange(flat_.next_wait[index(head)], recv);
      if (!consumer_.empty()) consumer_[index(recv)] = head;
    }
  }

  // --- queues -----------------------------------------------------------------------------------

  static MessageEnd end_on(std::int32_t rank, const FlatMessage& transfer, std::size_t edge, Flow flow) {
    const bool sends = transfer.from_rank == rank;
    return {.peer_rank = sends ? transfer.to_rank : transfer.from_rank,
            .sends = sends,
            .flow = flow,
            .edge = edge};
  }

  /// Appends message `id` to a queue of the rank. `sends` is true if the rank is the sender. An eager message
  /// does not wait at its receiver, so the receiver stores it in a separate list.
  void enqueue(std::size_t queue, std::int32_t id, bool sends, bool waits_its_turn) {
    FifoTail& tail = tails_[queue];
    if (tail.last == kNone && tail.unordered == kNone) used_queues_.push_back(queue);
    if (!waits_its_turn) {
      previous_unordered_[index(id)] = std::exchange(tail.unordered, id);
      return;
    }
    std::int32_t& pending = flat_.messages[index(id)].pending;
    if (tail.last != kNone) {
      FlatMessage& before = flat_.messages[index(tail.last)];
      (tail.last_sends ? before.next_at_sender : before.next_at_receiver) = id;
      ++pending;
    }
    // Eager messages can arrive in any order, so the next message in the queue waits for all of them.
    for (; tail.unordered != kNone; tail.unordered = previous_unordered_[index(tail.unordered)]) {
      flat_.messages[index(tail.unordered)].next_at_receiver = id;
      ++pending;
    }
    tail.last = id;
    tail.last_sends = sends;
  }

  /// Counts, for each message, the messages for which it waits in its queues. Use it for queues in which
  /// the messages of a group may travel at the same time.
  void count_followers() {
    for (std::size_t rank = 0; rank + 1 < flat_.rank_begin.size(); ++rank) {
      const std::int32_t end = flat_.rank_begin[rank + 1];
      for (std::int32_t p = flat_.rank_begin[rank]; p < end; ++p) {
        if (flat_.ops[index(p)] != FlatOp::send && flat_.ops[index(p)] != FlatOp::recv) continue;
        for_each_follower(flat_, channels_.model, p, end, [&](std::int32_t follower) {
          ++flat_.messages[index(flat_.message[index(follower)])].pending;
        });
      }
    }
  }

  /// Adds the waits that a limited capacity of queues causes. It reads the RECVs of each queue once more, in
  /// the order of the lists.
  void limit_queues() {
    flat_.released_by_consumer.assign(flat_.ops.size(), kNone);
    std::vector<std::vector<std::int32_t>> recvs(tails_.size());
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      for (std::int32_t p = flat_.rank_begin[index(rank)]; p < flat_.rank_begin[index(rank) + 1]; ++p) {
        if (flat_.ops[index(p)] != FlatOp::recv) continue;
        const StageMessage what = message_of(flat_.actions[index(p)]);
        const FlatMessage& transfer = flat_.messages[index(flat_.message[index(p)])];
        // The capacity limits the whole queue, even if messages of a group travel side by side in it. The
        // queue number therefore comes from the model alone.
        const std::size_t queue =
            queue_of(channels_.model, end_on(rank, transfer, edges_.of(edge_of(what)), what.flow));
        if (recvs[queue].empty()) used_queues_.push_back(queue);
        recvs[queue].push_back(p);
        limit(recvs[queue]);
      }
      // All ranks use the same queue numbers, and each rank begins with empty queues. Only used queues are
      // cleared, because there may be many queues.
      for (const std::size_t queue : used_queues_) recvs[queue].clear();
      used_queues_.clear();
    }
  }

  /// Makes the last RECV in `recvs` wait for the consumer of an earlier RECV, which is `capacity` RECVs
  /// before it.
  void limit(const std::vector<std::int32_t>& recvs) {
    if (recvs.size() <= index(channels_.capacity)) return;
    const std::int32_t id = flat_.message[index(recvs.back())];
    FlatMessage& limited = flat_.messages[index(id)];
    // An eager message arrives without waiting for its receiver.
    if (limited.eager) return;
    const std::int32_t holder = reader_of(recvs[recvs.size() - 1 - index(channels_.capacity)]);
    // If no action reads the message, its place would never become free. Therefore such a message is not
    // counted against the capacity.
    if (holder == kNone) return;
    limited.next_of_capacity = std::exchange(flat_.released_by_consumer[index(holder)], id);
    ++limited.pending;
  }

  /// Returns the position of the compute action that reads the message of a RECV and so frees its place in
  /// the queue. Returns kNone if there is none. A late R (recomputation) waits for the gradient, but only
  /// its B or I reads it.
  std::int32_t reader_of(std::int32_t recv) const {
    const Action& action = flat_.actions[index(recv)];
    if (backward_.empty() || flow_of(action.kind) == Flow::activation) return consumer_[index(recv)];
    return backward_[index(action.stage) * numbers_ + index(action.microbatch)];
  }

  static constexpr Bytes kUnknown = -1;

  struct RecentEdge {
    std::int32_t stage = kNone;
    std::int32_t peer = kNone;
    std::size_t edge = 0;
  };

  const Program& program_;
  const CostTable& costs_;
  ChannelOptions channels_;
  ChannelOptions queues_;    // the channel options by which queues are numbered
  bool has_groups_ = false;  // true if ranks wait for transfers
  std::int32_t iterations_;
  EdgeNumbers edges_;
  std::int32_t units_;
  std::size_t numbers_;                  // number of microbatches (or slices) of all iterations together
  std::vector<std::int32_t> transfers_;  // message of each edge, flow and microbatch number
  std::vector<Bytes> bytes_;             // the message size of each edge and flow, computed on first use
  std::vector<StageFlow> of_stage_;      // entry of each stage, microbatch number and flow
  std::vector<std::vector<std::int32_t>> of_group_;  // messages of a stage's collectives, by stage and kind
  std::vector<std::int32_t> barriers_;               // the messages of the barriers
  std::vector<std::int32_t> previous_unordered_;     // links eager messages; used only with an eager size
  // The compute action (position) that waits for each RECV; used only with a capacity.
  std::vector<std::int32_t> consumer_;
  // The SENDs that no WAIT waits for yet, lists linked by next_wait; used only with WAITs.
  std::unordered_map<std::size_t, std::int32_t> sends_;
  // The messages of OFFLOADs, by stage and microbatch number.
  std::unordered_map<std::size_t, std::int32_t> offloads_;
  // If messages cross: for each RECV, the RECV of the message that it gets.
  std::map<StageMessage, Action> met_;
  // Position of the B or I, by stage and microbatch number; used only with a capacity and late R.
  std::vector<std::int32_t> backward_;
  std::array<RecentEdge, 4> recent_edges_{};  // last edge of each kind: SEND_F, RECV_F, SEND_B, RECV_B
  // The following members describe the rank that is read now.
  std::vector<std::int32_t> steps_;          // the number of STEPs in one iteration, by stage
  std::vector<CollectiveScan> collectives_;  // collectives of each stage and kind
  std::vector<FifoTail> tails_;              // last message of each queue so far
  std::vector<std::size_t> used_queues_;
  FlatProgram flat_;
};

}  // namespace

std::int32_t FlatProgram::rank_of(std::int32_t position) const {
  const auto after = std::ranges::upper_bound(rank_begin, position);
  return static_cast<std::int32_t>(after - rank_begin.begin()) - 1;
}

FlatProgram flatten(const Program& lowered, const CostTable& costs, const FlattenOptions& options) {
  return Flattener(lowered, costs, options).run();
}

FlatProgram with_bytes_of(FlatProgram flat, const Program& lowered, const CostTable& costs) {
  const EdgeNumbers edges(lowered);
  TransferSizes sizes(costs, edges);
  for (FlatMessage& message : flat.messages) {
    if (message.recv != kNone) message.bytes = sizes.of(flat.actions[index(message.first)]);
  }
  return flat;
}

}  // namespace penstock
