// Lays a lowered program out flat, in two passes: one over the lists joins SEND with RECV, collectives with
// each other, and every position with what it waits for; one over the messages threads the FIFOs.

#include "schedules/check/flat_program.hpp"
#include <algorithm>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/edge_numbers.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/iterations.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

FlatOp op_of(const Action& action, const Action* before) {
  if (before != nullptr && before->overlaps_next) return FlatOp::leaf;
  if (is_compute(action.kind)) return FlatOp::compute;
  if (is_send(action.kind)) return FlatOp::send;
  if (is_recv(action.kind)) return FlatOp::recv;
  return is_collective(action.kind) ? FlatOp::collective : FlatOp::reshard;
}

/// What the scan of one rank's list remembers.
struct RankScan {
  std::int32_t rank = 0;
  std::vector<std::int32_t> reduce;  // by stage: the collective that nothing waits for yet
  std::vector<std::int32_t> unshard;
  std::vector<std::size_t> collectives_seen;  // by stage and kind
  std::size_t barriers_seen = 0;
  std::int32_t last_collective = kNone;
  std::int32_t head = kNone;  // of the group of compute actions scanned last
};

/// The first-in-first-out queues of one rank, as their last entries while its list is scanned.
struct FifoTails {
  std::vector<std::int32_t> last;       // last message that waits for its turn, by queue
  std::vector<std::int32_t> unordered;  // eager arrivals since then, a list through `previous_unordered`
};

class Flattener {
 public:
  Flattener(const Program& program, const CostTable& costs, const FlattenOptions& options)
      : program_(program),
        costs_(costs),
        channels_(options.channels),
        iterations_(options.iterations),
        edges_(program),
        units_(program.unit_count()) {
    flat_.rank_count = program.rank_count();
  }

  FlatProgram run() {
    reserve();
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) lay_out(rank);
    flat_.rank_begin.push_back(flat_.position_count());
    thread_fifos();
    return std::move(flat_);
  }

 private:
  void reserve() {
    std::size_t total = 0, transfers = 0;
    bool collectives = program_.barrier && iterations_ > 1;
    for (const auto& list : program_.ranks) {
      total += list.size();
      for (const Action& action : list) {
        transfers += is_transfer(action.kind) ? 1 : 0;
        collectives |= is_collective(action.kind);
      }
    }
    total =
        total * index(iterations_) + (program_.barrier ? index(iterations_ - 1) * program_.ranks.size() : 0);
    flat_.actions.reserve(total);
    flat_.ops.reserve(total);
    flat_.message.assign(total, kNone);
    flat_.next_wait.assign(total, kNone);
    flat_.next_member.assign(collectives ? total : 0, kNone);
    flat_.next_collective.assign(collectives ? total : 0, kNone);
    flat_.messages.reserve(transfers / 2 * index(iterations_));
    consumer_.assign(channels_.capacity > 0 ? total : 0, kNone);

    const std::size_t units = index(units_) * index(iterations_);
    activation_.assign(edges_.size() * units, kNone);
    gradient_.assign(edges_.size() * units, kNone);
    of_group_.resize(index(program_.stage_count()) * 2);
    const std::size_t numbers = index(program_.stage_count()) * units;
    forward_recv_.assign(numbers, kNone);
    backward_recv_.assign(numbers, kNone);
    forward_at_.assign(numbers, kNone);
    backward_at_.assign(numbers, kNone);
  }

  // --- lists ------------------------------------------------------------------------------------

  void lay_out(std::int32_t rank) {
    const std::vector<Action>& list = program_.ranks[index(rank)];
    const std::vector<std::int32_t> steps = steps_per_pass(program_, rank);
    RankScan scan{.rank = rank,
                  .reduce = std::vector<std::int32_t>(index(program_.stage_count()), kNone),
                  .unshard = std::vector<std::int32_t>(index(program_.stage_count()), kNone),
                  .collectives_seen = std::vector<std::size_t>(of_group_.size(), 0)};
    flat_.rank_begin.push_back(flat_.position_count());
    for (std::int32_t iteration = 0; iteration < iterations_; ++iteration) {
      if (iteration > 0 && program_.barrier) {
        join_collective(push(Action{}, FlatOp::barrier), barriers_, scan.barriers_seen++);
      }
      const Action* before = nullptr;
      for (const Action& action : list) {
        const FlatOp op = op_of(action, before);
        before = &action;
        place(scan, push(of_iteration(action, iteration, units_, steps), op));
      }
    }
  }

  std::int32_t push(const Action& action, FlatOp op) {
    flat_.actions.push_back(action);
    flat_.ops.push_back(op);
    return flat_.position_count() - 1;
  }

  /// Joins the position to its message, and to what it waits for or what waits for it.
  void place(RankScan& scan, std::int32_t position) {
    const Action& action = flat_.actions[index(position)];
    switch (flat_.ops[index(position)]) {
      case FlatOp::compute:
        scan.head = position;
        [[fallthrough]];
      case FlatOp::leaf:
        hang_onto(scan.head, action,
                  collective_before(action.kind) == ActionKind::reduce_grad ? scan.reduce : scan.unshard);
        break;
      case FlatOp::send:
        place_send(scan.rank, position, action);
        break;
      case FlatOp::recv:
        place_recv(scan.rank, position, action);
        break;
      case FlatOp::collective:
        place_collective(scan, position, action);
        break;
      case FlatOp::reshard:
      case FlatOp::barrier:
        break;
    }
  }

  std::size_t number_of(const Action& action) const {
    return index(action.stage) * index(units_) * index(iterations_) + index(action.microbatch);
  }

  // --- messages ---------------------------------------------------------------------------------

  std::int32_t new_message() {
    flat_.messages.emplace_back();
    return static_cast<std::int32_t>(flat_.messages.size()) - 1;
  }

  FlatMessage& join_transfer(std::int32_t position, const Action& action) {
    auto& table = flow_of(action.kind) == Flow::activation ? activation_ : gradient_;
    std::int32_t& message =
        table[edges_.of(action) * index(units_) * index(iterations_) + index(action.microbatch)];
    if (message == kNone) message = new_message();
    flat_.message[index(position)] = message;
    return flat_.messages[index(message)];
  }

  void place_send(std::int32_t rank, std::int32_t position, const Action& action) {
    FlatMessage& transfer = join_transfer(position, action);
    transfer.first = position;
    transfer.from_rank = rank;
    transfer.bytes = transfer_bytes(costs_, edges_, action);
    transfer.eager = transfer.bytes < channels_.eager_bytes;
    transfer.producer =
        (flow_of(action.kind) == Flow::activation ? forward_at_ : backward_at_)[number_of(action)];
    ++transfer.pending;
  }

  void place_recv(std::int32_t rank, std::int32_t position, const Action& action) {
    FlatMessage& transfer = join_transfer(position, action);
    transfer.recv = position;
    transfer.to_rank = rank;
    auto& list = flow_of(action.kind) == Flow::activation ? forward_recv_ : backward_recv_;
    flat_.next_wait[index(position)] = std::exchange(list[number_of(action)], position);
  }

  void place_collective(RankScan& scan, std::int32_t position, const Action& action) {
    const bool unshards = action.kind == ActionKind::unshard;
    const std::size_t group = index(action.stage) * 2 + (unshards ? 1 : 0);
    join_collective(position, of_group_[group], scan.collectives_seen[group]++);
    (unshards ? scan.unshard : scan.reduce)[index(action.stage)] = position;
    if (scan.last_collective != kNone) {
      flat_.next_collective[index(scan.last_collective)] = position;
      ++flat_.messages[index(flat_.message[index(position)])].pending;
    }
    scan.last_collective = position;
  }

  void join_collective(std::int32_t position, std::vector<std::int32_t>& of_group, std::size_t occurrence) {
    if (occurrence == of_group.size()) of_group.push_back(new_message());
    FlatMessage& collective = flat_.messages[index(of_group[occurrence])];
    flat_.message[index(position)] = of_group[occurrence];
    flat_.next_member[index(position)] = collective.first;
    collective.first = position;
    ++collective.pending;
  }

  // --- waits ------------------------------------------------------------------------------------

  /// Hangs what `action`, a leaf of the group at `head`, waits for onto the group.
  void hang_onto(std::int32_t head, const Action& action, std::vector<std::int32_t>& collectives) {
    std::int32_t& collective = collectives[index(action.stage)];
    if (collective != kNone) {
      flat_.next_wait[index(collective)] = flat_.next_wait[index(head)];
      flat_.next_wait[index(head)] = collective;
      collective = kNone;
    }
    if (action.microbatch == kNoMicrobatch) return;
    const std::size_t number = number_of(action);
    if (const auto made = output_of(action.kind)) {
      (made == Flow::activation ? forward_at_ : backward_at_)[number] = head;
    }
    if (const auto taken = input_of(action.kind, program_.recompute)) {
      take_recvs(head, (taken == Flow::activation ? forward_recv_ : backward_recv_)[number]);
    }
  }

  void take_recvs(std::int32_t head, std::int32_t& recvs) {
    while (recvs != kNone) {
      const std::int32_t recv = std::exchange(recvs, flat_.next_wait[index(recvs)]);
      flat_.next_wait[index(recv)] = std::exchange(flat_.next_wait[index(head)], recv);
      if (!consumer_.empty()) consumer_[index(recv)] = head;
    }
  }

  // --- queues -----------------------------------------------------------------------------------

  std::size_t queue_count() const {
    switch (channels_.model) {
      case ChannelModel::rank:
        return 1;
      case ChannelModel::pair:
        return index(flat_.rank_count);
      case ChannelModel::direction:
        return 2;
      case ChannelModel::directed:
        return 2 * index(flat_.rank_count);
      case ChannelModel::boundary:
        return 2 * edges_.size();
    }
    return 0;
  }

  std::size_t queue_of(std::int32_t rank, const FlatMessage& transfer, const Action& action) const {
    const bool sends = transfer.from_rank == rank;
    const std::size_t peer = index(sends ? transfer.to_rank : transfer.from_rank);
    const auto kind = static_cast<std::size_t>(flow_of(action.kind));
    switch (channels_.model) {
      case ChannelModel::rank:
        return 0;
      case ChannelModel::pair:
        return peer;
      case ChannelModel::direction:
        return kind;
      case ChannelModel::directed:
        return 2 * peer + (sends ? 0 : 1);
      case ChannelModel::boundary:
        return 2 * edges_.of(action) + kind;
    }
    return 0;
  }

  void thread_fifos() {
    flat_.released_by_consumer.assign(channels_.capacity > 0 ? flat_.ops.size() : 0, kNone);
    previous_unordered_.assign(flat_.messages.size(), kNone);
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      FifoTails tails{std::vector<std::int32_t>(queue_count(), kNone),
                      std::vector<std::int32_t>(queue_count(), kNone)};
      std::vector<std::vector<std::int32_t>> recvs(channels_.capacity > 0 ? queue_count() : 0);
      for (std::int32_t p = flat_.rank_begin[index(rank)]; p < flat_.rank_begin[index(rank) + 1]; ++p) {
        const FlatOp op = flat_.ops[index(p)];
        if (op != FlatOp::send && op != FlatOp::recv) continue;
        const std::int32_t id = flat_.message[index(p)];
        FlatMessage& transfer = flat_.messages[index(id)];
        const std::size_t queue = queue_of(rank, transfer, flat_.actions[index(p)]);
        const bool waits_its_turn = op == FlatOp::send || !transfer.eager;
        if (op == FlatOp::recv && !transfer.eager) ++transfer.pending;  // for the RECV being reached
        enqueue(rank, id, queue, tails, waits_its_turn);
        if (op == FlatOp::recv && channels_.capacity > 0) limit(p, recvs[queue]);
      }
    }
  }

  /// Puts a message behind all that is in the queue of this rank, unless it does not wait for its turn.
  void enqueue(std::int32_t rank, std::int32_t id, std::size_t queue, FifoTails& tails, bool waits_its_turn) {
    std::int32_t& unordered = tails.unordered[queue];
    if (!waits_its_turn) {
      previous_unordered_[index(id)] = unordered;
      unordered = id;
      return;
    }
    if (tails.last[queue] != kNone) follow(rank, tails.last[queue], id);
    for (; unordered != kNone; unordered = previous_unordered_[index(unordered)]) follow(rank, unordered, id);
    tails.last[queue] = id;
  }

  void follow(std::int32_t rank, std::int32_t before, std::int32_t after) {
    FlatMessage& first = flat_.messages[index(before)];
    (first.from_rank == rank ? first.next_at_sender : first.next_at_receiver) = after;
    ++flat_.messages[index(after)].pending;
  }

  /// RECV k of a queue waits for the consumer of RECV k - capacity.
  void limit(std::int32_t recv, std::vector<std::int32_t>& recvs) {
    recvs.push_back(recv);
    if (recvs.size() <= index(channels_.capacity)) return;
    if (flat_.messages[index(flat_.message[index(recv)])].eager) return;
    const std::int32_t holder = consumer_[index(recvs[recvs.size() - 1 - index(channels_.capacity)])];
    if (holder == kNone) return;
    const std::int32_t id = flat_.message[index(recv)];
    FlatMessage& limited = flat_.messages[index(id)];
    limited.next_of_capacity = flat_.released_by_consumer[index(holder)];
    flat_.released_by_consumer[index(holder)] = id;
    ++limited.pending;
  }

  const Program& program_;
  const CostTable& costs_;
  ChannelOptions channels_;
  std::int32_t iterations_;
  EdgeNumbers edges_;
  std::int32_t units_;
  std::vector<std::int32_t> activation_, gradient_;         // messages by edge and number
  std::vector<std::vector<std::int32_t>> of_group_;         // messages of a stage's collectives, by kind
  std::vector<std::int32_t> barriers_;                      // messages
  std::vector<std::int32_t> forward_recv_, backward_recv_;  // lists of RECVs by stage and number
  std::vector<std::int32_t> forward_at_, backward_at_;      // positions by stage and number
  std::vector<std::int32_t> consumer_;  // by RECV: the compute position that waits for it; with a capacity
  std::vector<std::int32_t> previous_unordered_;
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

}  // namespace penstock
