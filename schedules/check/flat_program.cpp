// Engines and checks step through a program millions of times, so this file resolves all names beforehand.
// One pass over the lists joins each SEND with its RECV, collectives with each other, every position with
// what it waits for, and every message with the next one in the queues at its ends. Look-ups use tables by
// edge, direction and number, or by stage and number:
//
//   SEND, RECV  ->  the message of its edge and number, made by whichever end comes first
//   F, B, I     ->  the earlier RECVs of its stage and number, a list through next_wait
//   SEND        ->  the position of the action of its stage and number that produces it
//
// The placement determines which queue a message is in on each rank, so neither end needs the other. walk.hpp
// steps through the result. Tested by channel_check_test.cpp and all engine tests of sim/.

#include "schedules/check/flat_program.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "schedules/check/crossed_messages.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/edge_numbers.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/iterations.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/rank_queues.hpp"

namespace penstock {
namespace {

/// Returns the operation of an action. `before` is the previous action of its list, or null at the beginning.
FlatOp op_of(const Action& action, const Action* before) {
  // A group is represented by its first action.
  if (before != nullptr && before->overlaps_next) return FlatOp::leaf;
  if (is_compute(action.kind)) return FlatOp::compute;
  if (is_send(action.kind)) return FlatOp::send;
  if (is_recv(action.kind)) return FlatOp::recv;
  return is_collective(action.kind) ? FlatOp::collective : FlatOp::reshard;
}

/// The state of the scan through one rank's list.
struct RankScan {
  std::int32_t rank = 0;
  std::size_t barriers_seen = 0;
  std::int32_t last_collective = kNone;
  std::int32_t head = kNone;    // the group of compute actions scanned last
  std::int32_t newest = kNone;  // that group, or a barrier after it
};

/// The state of the scan for the UNSHARDs, or the REDUCE_GRADs, of one stage.
struct CollectiveScan {
  std::int32_t newest = kNone;  // the latest such position, if nothing waits for it yet
  std::size_t seen = 0;
};

/// The positions of one flow (activations or gradients) at one stage and number.
struct StageFlow {
  std::int32_t recvs = kNone;     // RECVs that no action waits for yet, a list through next_wait
  std::int32_t producer = kNone;  // the position whose end produces the message
};

/// The end of a first-in-first-out queue of the rank whose list is scanned. An eager message arrives
/// independent of the queue and delays no other eager message. The next message that is not eager waits for
/// all of them:
///
///   m0 (e1 e2) m3       m3 waits for m0, e1 and e2; e1 and e2 wait for nothing here
///
struct FifoTail {
  std::int32_t last = kNone;       // last message that waits in the queue
  std::int32_t unordered = kNone;  // eager arrivals after it, a list through `previous_unordered`
  bool last_sends = false;         // true if `last` leaves this rank
};

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
    for (const CrossedMessage& one : options.crossed)
      met_.emplace(message_of(one.receive), recv_of(message_of(one.send)));
  }

  FlatProgram run() {
    reserve();
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) lay_out(rank);
    flat_.rank_begin.push_back(flat_.position_count());
    // Capacities come last, because only now each RECV is joined with the action that reads it.
    if (channels_.capacity > 0) limit_queues();
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
    flat_.messages.reserve(total / 2);  // each message has at least two positions
    consumer_.assign(channels_.capacity > 0 ? total : 0, kNone);
    const bool late = program_.recompute == RecomputeTiming::late;
    if (channels_.capacity > 0 && late) backward_.assign(index(program_.stage_count()) * numbers_, kNone);

    transfers_.assign(2 * edges_.size() * numbers_, kNone);
    bytes_.assign(2 * edges_.size(), kUnknown);
    of_stage_.resize(2 * index(program_.stage_count()) * numbers_);
    steps_.assign(index(program_.stage_count()), 0);
    of_group_.resize(2 * index(program_.stage_count()));
    collectives_.resize(2 * index(program_.stage_count()));
    tails_.resize(queue_count(channels_.model, flat_.rank_count, edges_.size()));
  }

  // --- lists ------------------------------------------------------------------------------------

  void lay_out(std::int32_t rank) {
    const std::vector<Action>& list = program_.ranks[index(rank)];
    RankScan scan{.rank = rank};
    // Each iteration raises the weight versions of a stage by the number of its STEPs in the rank's list.
    if (iterations_ > 1) count_steps(list, 1);
    flat_.rank_begin.push_back(flat_.position_count());
    for (std::int32_t iteration = 0; iteration < iterations_; ++iteration) {
      if (iteration > 0 && program_.barrier) {
        // A barrier has no action. The empty entry keeps the vectors equally long.
        flat_.actions.emplace_back();
        scan.newest = push(FlatOp::barrier);
        join_collective(scan.newest, barriers_, scan.barriers_seen++);
      }
      const Action* before = nullptr;
      for (const Action& action : list) {
        flat_.actions.push_back(action);
        if (iteration > 0) flat_.actions.back() = of_iteration(action, iteration, units_, steps_);
        place(scan, push(op_of(action, before)));
        before = &action;
      }
    }
    forget(list);
  }

  std::int32_t push(FlatOp op) {
    flat_.ops.push_back(op);
    return flat_.position_count() - 1;
  }

  void count_steps(const std::vector<Action>& list, std::int32_t by) {
    for (const Action& action : list) {
      if (action.kind == ActionKind::step) steps_[index(action.stage)] += by;
    }
  }

  /// Resets the tables of stages and queues for the next rank. It clears only the used entries, because some
  /// tables have as many entries as there are stages or ranks, and they are reset once a rank.
  void forget(const std::vector<Action>& list) {
    if (iterations_ > 1) count_steps(list, -1);
    for (const std::size_t queue : used_queues_) tails_[queue] = {};
    used_queues_.clear();
    if (!has_collectives()) return;
    for (const Action& action : list) {
      if (is_collective(action.kind)) collectives_[group_of(action)] = {};
    }
  }

  /// Joins a position with its message, with what it waits for, and with what waits for it.
  void place(RankScan& scan, std::int32_t position) {
    const Action& action = flat_.actions[index(position)];
    switch (flat_.ops[index(position)]) {
      case FlatOp::compute:
        scan.head = scan.newest = position;
        [[fallthrough]];  // the first action of a group has waits, like the others
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
      case FlatOp::reshard:
      case FlatOp::barrier:
        break;
    }
  }

  /// Both flows of a stage and number are adjacent, because an F reads one and its B the other soon after.
  StageFlow& of_stage(std::int32_t stage, std::int32_t number, Flow flow) {
    return of_stage_[2 * (index(stage) * numbers_ + index(number)) + static_cast<std::size_t>(flow)];
  }

  // --- messages ---------------------------------------------------------------------------------

  std::int32_t new_message(const FlatMessage& message) {
    flat_.messages.push_back(message);
    if (channels_.eager_bytes > 0) previous_unordered_.push_back(kNone);
    return static_cast<std::int32_t>(flat_.messages.size()) - 1;
  }

  /// Returns a new message. Either end may come first, so only fields that do not depend on the end are set
  /// here.
  std::int32_t new_transfer(const StageMessage& what, std::size_t edge, const Action& action) {
    // Numbers run on over iterations, but the placement knows only the numbers of one pass.
    const std::int32_t unit = what.microbatch < units_ ? what.microbatch : what.microbatch % units_;
    const Bytes bytes = bytes_of(action, 2 * edge + static_cast<std::size_t>(what.flow));
    return new_message({.from_rank = program_.placement.rank_of(what.from, unit),
                        .to_rank = program_.placement.rank_of(what.to, unit),
                        .eager = bytes < channels_.eager_bytes,
                        .bytes = bytes});
  }

  Bytes bytes_of(const Action& transfer, std::size_t route) {
    // If microbatches are alike, an edge carries the same bytes each time, so they are looked up once.
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
      // If nothing was computed since, the producer ends at the moment when the SEND is reached.
      transfer.late = at_stage.producer != kNone && at_stage.producer != scan.newest;
    } else {
      transfer.recv = position;
      // The RECV joins the list of those that no action waits for yet. The next action that needs them takes
      // the whole list.
      flat_.next_wait[index(position)] = std::exchange(at_stage.recvs, position);
    }
    const bool waits_its_turn = sends || !transfer.eager;
    if (waits_its_turn) ++transfer.pending;  // for this end being reached
    enqueue(queue_on(scan.rank, transfer, edge, what.flow), id, sends, waits_its_turn);
  }

  /// Returns the RECV whose message `receive` really meets. Crossed messages have the numbers of one pass,
  /// while actions have numbers that run on over iterations.
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

  /// Returns the number of the message's edge, usually from the cached edge of the previous SEND or RECV of
  /// this kind.
  std::size_t edge_number(const Action& action, const StageMessage& what) {
    RecentEdge& recent = recent_edges_[static_cast<std::size_t>(action.kind) -
                                       static_cast<std::size_t>(ActionKind::send_forward)];
    if (recent.stage != action.stage || recent.peer != action.peer)
      recent = {.stage = action.stage, .peer = action.peer, .edge = edges_.of(edge_of(what))};
    return recent.edge;
  }

  /// Returns the index of a collective's counter. UNSHARDs and REDUCE_GRADs are counted separately: the k-th
  /// of a kind matches the k-th on every member.
  static std::size_t group_of(const Action& collective) {
    return 2 * index(collective.stage) + (collective.kind == ActionKind::unshard ? 1 : 0);
  }

  void place_collective(RankScan& scan, std::int32_t position, const Action& action) {
    CollectiveScan& of_kind = collectives_[group_of(action)];
    join_collective(position, of_group_[group_of(action)], of_kind.seen++);
    of_kind.newest = position;
    if (scan.last_collective != kNone) {
      flat_.next_collective[index(scan.last_collective)] = position;
      // A collective starts on a rank after the previous collective there has ended.
      ++flat_.messages[index(flat_.message[index(position)])].pending;
    }
    scan.last_collective = position;
  }

  /// Adds `position` to the members of a group's collective or barrier number `occurrence`. The first member
  /// that is scanned creates it. Members are a list through next_member.
  void join_collective(std::int32_t position, std::vector<std::int32_t>& of_group, std::size_t occurrence) {
    if (!has_collectives()) {
      // The tables are created with the first collective, because most programs have none.
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

  /// Returns true after the first collective or barrier.
  bool has_collectives() const { return !flat_.next_member.empty(); }

  // --- waits ------------------------------------------------------------------------------------

  /// Adds everything that `action` waits for to the waits of the group that starts at `head`.
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
      // Only the first action that needs the collective waits, because later actions follow it in program
      // order.
      if (newest == kNone) continue;
      flat_.next_wait[index(newest)] = std::exchange(flat_.next_wait[index(head)], newest);
      newest = kNone;
    }
  }

  /// Moves all RECVs of a list into the waits of the group at `head`. Only the first action that needs them
  /// waits. A late R takes the gradient that its B would wait for, because R comes first.
  void take_recvs(std::int32_t head, std::int32_t& recvs) {
    while (recvs != kNone) {
      const std::int32_t recv = std::exchange(recvs, flat_.next_wait[index(recvs)]);
      flat_.messages[index(flat_.message[index(recv)])].awaited = true;
      flat_.next_wait[index(recv)] = std::exchange(flat_.next_wait[index(head)], recv);
      if (!consumer_.empty()) consumer_[index(recv)] = head;
    }
  }

  // --- queues -----------------------------------------------------------------------------------

  std::size_t queue_on(std::int32_t rank, const FlatMessage& transfer, std::size_t edge, Flow flow) const {
    const bool sends = transfer.from_rank == rank;
    return queue_of(channels_.model, {.peer_rank = sends ? transfer.to_rank : transfer.from_rank,
                                      .sends = sends,
                                      .flow = flow,
                                      .edge = edge});
  }

  /// Appends a message to a queue of the rank. An eager arrival does not wait in the queue and is stored
  /// apart.
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
    // Eager messages may arrive in any order, and the next message in the queue waits for all of them.
    for (; tail.unordered != kNone; tail.unordered = previous_unordered_[index(tail.unordered)]) {
      flat_.messages[index(tail.unordered)].next_at_receiver = id;
      ++pending;
    }
    tail.last = id;
    tail.last_sends = sends;
  }

  /// Adds the waits of a limited capacity, going once more through every queue's RECVs in list order.
  void limit_queues() {
    flat_.released_by_consumer.assign(flat_.ops.size(), kNone);
    std::vector<std::vector<std::int32_t>> recvs(tails_.size());
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      for (std::int32_t p = flat_.rank_begin[index(rank)]; p < flat_.rank_begin[index(rank) + 1]; ++p) {
        if (flat_.ops[index(p)] != FlatOp::recv) continue;
        const StageMessage what = message_of(flat_.actions[index(p)]);
        const FlatMessage& transfer = flat_.messages[index(flat_.message[index(p)])];
        const std::size_t queue = queue_on(rank, transfer, edges_.of(edge_of(what)), what.flow);
        if (recvs[queue].empty()) used_queues_.push_back(queue);
        recvs[queue].push_back(p);
        limit(recvs[queue]);
      }
      // Queue numbers are equal on all ranks and every rank begins with empty queues. Only used queues are
      // cleared, because there may be many.
      for (const std::size_t queue : used_queues_) recvs[queue].clear();
      used_queues_.clear();
    }
  }

  /// Makes the last RECV of a queue, its k-th, wait for the consumer of RECV k - capacity.
  void limit(const std::vector<std::int32_t>& recvs) {
    if (recvs.size() <= index(channels_.capacity)) return;
    const std::int32_t id = flat_.message[index(recvs.back())];
    FlatMessage& limited = flat_.messages[index(id)];
    // An eager message arrives independent of its receiver.
    if (limited.eager) return;
    const std::int32_t holder = reader_of(recvs[recvs.size() - 1 - index(channels_.capacity)]);
    // If no action reads the message, its place would never be freed, so it does not count.
    if (holder == kNone) return;
    limited.next_of_capacity = std::exchange(flat_.released_by_consumer[index(holder)], id);
    ++limited.pending;
  }

  /// Returns the compute position that reads the message of a RECV and frees its place, or kNone if there is
  /// none. A late R only waits for the gradient; its B or I reads it.
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
  std::int32_t iterations_;
  EdgeNumbers edges_;
  std::int32_t units_;
  std::size_t numbers_;                              // units of all iterations
  std::vector<std::int32_t> transfers_;              // messages by edge, flow and number
  std::vector<Bytes> bytes_;                         // by edge and flow, filled when needed
  std::vector<StageFlow> of_stage_;                  // by stage, number and flow
  std::vector<std::vector<std::int32_t>> of_group_;  // messages of a stage's collectives, by kind
  std::vector<std::int32_t> barriers_;               // messages
  std::vector<std::int32_t> previous_unordered_;     // by message; used with an eager size
  std::vector<std::int32_t>
      consumer_;  // by RECV: the compute position that waits for it; used with a capacity
  std::map<StageMessage, Action> met_;  // for crossed messages: the RECV of the message that a RECV meets
  std::vector<std::int32_t> backward_;  // B or I by stage and number; used with a capacity and late R
  std::array<RecentEdge, 4> recent_edges_{};  // by kind: SEND_F, RECV_F, SEND_B, RECV_B
  // The following members belong to the rank whose list is scanned.
  std::vector<std::int32_t> steps_;          // by stage, in one pass
  std::vector<CollectiveScan> collectives_;  // by stage and kind
  std::vector<FifoTail> tails_;              // by queue
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
