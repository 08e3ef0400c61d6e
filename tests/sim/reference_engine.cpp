// The slow reference. At first, every action starts at 0. Then each action that starts before something for
// which it must wait is moved to a later time, until no action moves. Each rule of the simulator is a search
// over all actions.

#include "tests/sim/reference_engine.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "schedules/check/launch_lists.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "topology/cluster.hpp"
#include "topology/collective.hpp"

namespace penstock {
namespace {

struct Item {
  std::int32_t rank = 0;
  std::int32_t position = 0;  // position in the rank's list over all iterations
  std::int32_t iteration = 0;
  std::int32_t group = 0;  // position of the first leaf of its overlapped group
  std::int32_t batch = 0;  // position of the first transfer of its group of transfers, or its own position
  bool stated = false;     // true if the list states the group of transfers
  Action action;
  Ns launched = 0;  // end of the launch by the rank's host
  Ns ready = 0;  // with a launch order: the start of a transfer or collective without the launches before it
  Ns start = 0;
  Ns released = 0;  // for a transfer, the time at which its channel is free; for others, the end
  Ns end = 0;
};

class Reference {
 public:
  explicit Reference(const Experiment& experiment)
      : e_(experiment), p_(experiment.program), edges_(experiment.program) {
    for (std::int32_t rank = 0; rank < p_.rank_count(); ++rank) unroll(rank);
    if (has_launch_order(e_.channels)) {
      for (std::int32_t rank = 0; rank < p_.rank_count(); ++rank) order_launches(rank);
    }
  }

  Timeline run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (Item& item : items_) moved |= update(item);
    }
    Timeline timeline{.rank_count = p_.rank_count(), .spans = {}};
    for (const Item& item : items_) {
      timeline.spans.push_back({item.rank, item.action, p_.placement.replica_on(item.action.stage, item.rank),
                                item.start, item.end});
      timeline.makespan_ns = std::max(timeline.makespan_ns, item.end);
    }
    return timeline;
  }

 private:
  void unroll(std::int32_t rank) {
    const auto& list = p_.ranks[static_cast<std::size_t>(rank)];
    std::int32_t position = 0;
    for (std::int32_t iteration = 0; iteration < p_.iterations; ++iteration) {
      const std::size_t first = items_.size();
      for (std::size_t i = 0; i < list.size(); ++i, ++position) {
        Item item{.rank = rank,
                  .position = position,
                  .iteration = iteration,
                  .group = position,
                  .batch = position,
                  .action = list[i]};
        if (i > 0 && list[i - 1].overlaps_next) item.group = items_.back().group;
        if (item.action.microbatch != kNoMicrobatch) item.action.microbatch += iteration * p_.unit_count();
        if (is_compute(item.action.kind) && item.action.kind != ActionKind::step) {
          const auto steps = std::ranges::count_if(list, [&](const Action& a) {
            return a.kind == ActionKind::step && a.stage == item.action.stage;
          });
          item.action.weight_version += iteration * static_cast<std::int32_t>(steps);
        }
        items_.push_back(item);
      }
      find_batches(first);
    }
  }

  /// Finds the groups of transfers among the items from `first` on. If transfers are batched, all transfers
  /// between two compute actions are a group, with what stands between them. A group of the list stays alone.
  void find_batches(std::size_t first) {
    std::size_t last = items_.size();  // the latest transfer of the open group; none if it is the end
    for (std::size_t i = first; i < items_.size(); ++i) {
      Item& item = items_[i];
      if (is_compute(item.action.kind) || is_wait(item.action.kind)) last = items_.size();
      if (!is_transfer(item.action.kind)) continue;
      const bool continues = i > first && items_[i - 1].action.overlaps_next;
      item.stated = continues || item.action.overlaps_next;
      const bool joins = continues || (!item.stated && e_.channels.blocking == Blocking::batched);
      for (std::size_t member = last; joins && member < i; ++member)
        items_[member + 1].batch = items_[last].batch;
      last = item.stated && !item.action.overlaps_next ? items_.size() : i;
    }
  }

  /// Returns true if the transfer starts only after its rank has reached it in program order.
  bool is_reached_in_order(const Item& transfer) const { return e_.channels.waits() || transfer.stated; }
  /// Returns true if the rank waits for the transfer in its program order.
  bool waits_in_order(const Item& transfer) const {
    return e_.channels.waits() || (transfer.stated && !transfer.action.no_wait);
  }

  /// Computes the times of one action from those of all others. Returns true if they have changed.
  bool update(Item& item) {
    const Ns before_launched = item.launched;
    const Ns before_start = item.start;
    const Ns before_end = item.end;
    const Ns before_ready = item.ready;
    item.launched = launched(item);
    if (!launches_.empty()) item.ready = ready(item);
    item.start = start_of(item);
    item.released = item.start + length_of(item);
    item.end = item.released + latency_of(item);
    return item.launched != before_launched || item.start != before_start || item.end != before_end ||
           item.ready != before_ready;
  }

  /// Returns the end of the launch of `item`. The launch waits for all launches before it in the list. A
  /// compute action also waits for the end of the compute action that is `most_ahead` before it.
  Ns launched(const Item& item) const {
    if (is_transfer(item.action.kind) && item.batch != item.position) return first_of_batch(item).launched;
    if (!is_launched(item)) return 0;
    Ns begin = 0;
    std::vector<Ns> ends;  // ends of the compute actions before `item`
    for (const Item& other : items_) {
      if (other.rank != item.rank || other.position >= item.position || !is_launched(other)) continue;
      begin = std::max(begin, other.launched);
      if (is_compute(other.action.kind)) ends.push_back(other.end);
    }
    const auto most = static_cast<std::size_t>(e_.costs.launch.most_ahead);
    if (is_compute(item.action.kind) && most > 0 && ends.size() >= most)
      begin = std::max(begin, ends[ends.size() - most]);
    return begin + e_.costs.launch.overhead_ns;
  }

  static bool is_launched(const Item& item) {
    if (is_transfer(item.action.kind)) return item.batch == item.position;
    return item.action.kind != ActionKind::reshard && !is_wait(item.action.kind) &&
           item.group == item.position;
  }

  /// Returns the first transfer of the group of transfers to which `item` belongs.
  const Item& first_of_batch(const Item& item) const {
    return *std::ranges::find_if(
        items_, [&](const Item& other) { return other.rank == item.rank && other.position == item.batch; });
  }

  /// Returns the end of the launch of the group to which `item` belongs.
  Ns launched_with_group(const Item& item) const {
    for (const Item& first : items_) {
      if (first.rank == item.rank && first.position == item.group) return first.launched;
    }
    return 0;
  }

  Ns start_of(const Item& item) const {
    if (is_transfer(item.action.kind))
      return start_of_transfer(other_end_or_self(item, true), other_end_or_self(item, false));
    if (is_collective(item.action.kind)) return start_of_collective(item);
    if (is_host_copy(item.action.kind)) return start_of_copy(item);
    Ns start = std::max(after_program_order(item), launched_with_group(item));
    for (const Item& other : items_) {
      const bool awaited = is_compute(item.action.kind)
                               ? leaf_of_group_waits_for(item, other)
                               : is_wait(item.action.kind) && stands_for(item, other);
      if (awaited) start = std::max(start, other.end);
    }
    return start;
  }

  /// Returns true if the WAIT waits for `other`: a SEND of its stage and microbatch, or a REDUCE_GRAD of its
  /// stage before it.
  bool stands_for(const Item& wait, const Item& other) const {
    return other.rank == wait.rank && other.position < wait.position &&
           other.action.kind == awaited_kind(wait.action.kind) && other.action.stage == wait.action.stage &&
           other.action.microbatch == wait.action.microbatch;
  }

  /// Returns the earliest start by program order. `item` waits for all compute actions and WAITs before it on
  /// the rank. With a barrier, it also waits for those of all ranks in earlier iterations. With blocking
  /// transfers, it also waits for the transfers before it, but not for those of its own group.
  Ns after_program_order(const Item& item) const {
    Ns start = 0;
    const std::int32_t reached = std::min(item.group, item.batch);
    for (const Item& other : items_) {
      const bool in_order = is_compute(other.action.kind) || is_wait(other.action.kind);
      const bool counts = in_order || (is_transfer(other.action.kind) && waits_in_order(other));
      const bool earlier = other.rank == item.rank && other.position < reached;
      const bool behind_barrier = p_.barrier && other.iteration < item.iteration && in_order;
      if ((counts && earlier) || behind_barrier) start = std::max(start, other.end);
    }
    // With a launch order, the barrier starts on each rank after all launches before it.
    for (const std::vector<std::size_t>& launches : launches_) {
      for (const std::size_t launch : launches) {
        const bool is_before = p_.barrier && items_[launch].iteration < item.iteration;
        if (is_before) start = std::max(start, items_[launch].ready);
      }
    }
    return start;
  }

  // --- launch order ---------------------------------------------------------------------------------

  /// Lists the rank's launches in order, by item number. A RECV or collective is launched at its position, a
  /// SEND when its data are made and all earlier transfers of its queue are launched.
  void order_launches(std::int32_t rank) {
    std::vector<std::size_t> launched;
    const auto is_launched = [&](std::size_t i) { return std::ranges::find(launched, i) != launched.end(); };
    const auto launch = [&](std::size_t i) {
      // After one transfer, the next SEND of the same queue may follow, and so on.
      for (bool follows = true; follows;) {
        launched.push_back(i);
        follows = false;
        if (!is_transfer(items_[i].action.kind)) return;
        for (std::size_t next = i + 1; next < items_.size() && items_[next].rank == rank; ++next) {
          if (!is_transfer(items_[next].action.kind) || !same_queue(items_[next], items_[i])) continue;
          // An eager message does not wait at its receiver, so other messages pass it.
          if (is_recv(items_[next].action.kind) && is_eager(items_[next])) continue;
          follows = is_send(items_[next].action.kind) && made_.contains(next) && !is_launched(next) &&
                    earlier_are_launched(next, launched);
          if (follows) i = next;
          break;
        }
      }
    };
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      if (item.rank != rank) continue;
      if (is_recv(item.action.kind) || is_collective(item.action.kind)) launch(i);
      if (!is_compute(item.action.kind) || item.group != item.position) continue;
      std::vector<std::size_t> sends;
      for (std::size_t s = i; s < items_.size(); ++s) {
        if (items_[s].rank == rank && is_send(items_[s].action.kind) && group_makes(item, items_[s]))
          sends.push_back(s);
      }
      for (const std::size_t send : sends) {
        made_.insert(send);
        if (!is_launched(send) && earlier_are_launched(send, launched)) launch(send);
      }
    }
    launches_.push_back(std::move(launched));
  }

  bool earlier_are_launched(std::size_t send, const std::vector<std::size_t>& launched) const {
    for (std::size_t i = 0; i < send; ++i) {
      const bool is_before = items_[i].rank == items_[send].rank && is_transfer(items_[i].action.kind) &&
                             same_queue(items_[i], items_[send]);
      if (is_before && std::ranges::find(launched, i) == launched.end()) return false;
    }
    return true;
  }

  /// Returns true if an action of the group that begins with `head` makes the data of the SEND.
  bool group_makes(const Item& head, const Item& send) const {
    return std::ranges::any_of(items_, [&](const Item& leaf) {
      return leaf.rank == head.rank && leaf.group == head.position && produces(leaf, send);
    });
  }

  bool is_eager(const Item& transfer) const {
    return transfer_bytes(e_.costs, edges_, transfer.action) < e_.channels.eager_bytes;
  }

  /// Returns the earliest start of a launch without the launches before it on its rank.
  Ns ready(const Item& item) const {
    if (is_collective(item.action.kind))
      return std::max({item.launched, after_program_order(item), after_collectives(item)});
    if (is_recv(item.action.kind))
      return is_eager(item) ? 0 : std::max({item.launched, after_queue(item), after_capacity(item)});
    if (!is_send(item.action.kind)) return 0;
    Ns start = std::max(item.launched, after_queue(item));
    for (const Item& other : items_) {
      if (produces(other, item)) start = std::max(start, other.end);
    }
    return start;
  }

  /// Returns the start of a launch: no launch before it on its rank starts later.
  Ns resident(const Item& item) const {
    if (launches_.empty()) return 0;
    Ns start = 0;
    for (const std::size_t launch : launches_[static_cast<std::size_t>(item.rank)]) {
      start = std::max(start, items_[launch].ready);
      if (items_[launch].position == item.position) break;
    }
    // A barrier is a launch, too. It starts when the rank has reached it.
    for (const Item& other : items_) {
      const bool is_before = p_.barrier && other.rank == item.rank && other.iteration < item.iteration;
      if (is_before && is_compute(other.action.kind)) start = std::max(start, other.end);
    }
    return start;
  }

  bool leaf_of_group_waits_for(const Item& item, const Item& message) const {
    if (message.rank != item.rank || message.position > item.group) return false;
    for (const Item& leaf : items_) {
      if (leaf.rank == item.rank && leaf.group == item.group && is_compute(leaf.action.kind) &&
          waits_for(leaf, message)) {
        return true;
      }
    }
    return false;
  }

  bool waits_for(const Item& leaf, const Item& message) const {
    const Action& a = leaf.action;
    const Action& m = message.action;
    if (a.stage != m.stage) return false;
    if (m.kind == ActionKind::reduce_grad)
      return a.kind == ActionKind::step || (p_.sharding > 1 && makes_weight_gradient(a.kind));
    if (m.kind == ActionKind::unshard) return a.kind != ActionKind::step;
    if (a.microbatch != m.microbatch) return false;
    if (m.kind == ActionKind::recv_forward) return a.kind == ActionKind::forward;
    if (m.kind == ActionKind::reload) return is_backward(a.kind);
    const bool late = a.kind == ActionKind::recompute && p_.recompute == RecomputeTiming::late;
    return m.kind == ActionKind::recv_backward &&
           (a.kind == ActionKind::backward || a.kind == ActionKind::backward_input || late);
  }

  // --- transfers ------------------------------------------------------------------------------------

  /// Returns the SEND or the RECV of the transfer to which `item` belongs.
  const Item& other_end_or_self(const Item& item, bool want_send) const {
    if (is_send(item.action.kind) == want_send) return item;
    for (const Item& other : items_) {
      const bool same_direction =
          (item.action.kind == ActionKind::send_forward || item.action.kind == ActionKind::recv_forward) ==
          (other.action.kind == ActionKind::send_forward || other.action.kind == ActionKind::recv_forward);
      if (is_transfer(other.action.kind) && is_send(other.action.kind) == want_send && same_direction &&
          other.action.stage == item.action.peer && other.action.peer == item.action.stage &&
          other.action.microbatch == item.action.microbatch) {
        return other;
      }
    }
    return item;
  }

  Ns start_of_transfer(const Item& send, const Item& recv) const {
    Ns start = send.launched;
    for (const Item& other : items_) {
      if (produces(other, send)) start = std::max(start, other.end);
    }
    const bool eager = is_eager(send);
    start = std::max(start, after_queue(send));
    if (!eager) start = std::max({start, recv.launched, after_queue(recv), after_capacity(recv)});
    start = std::max(start, resident(send));
    if (!eager) start = std::max(start, resident(recv));
    if (is_reached_in_order(send)) start = std::max(start, after_program_order(send));
    if (is_reached_in_order(recv) && !eager) start = std::max(start, after_program_order(recv));
    return start;
  }

  bool produces(const Item& compute, const Item& send) const {
    if (compute.rank != send.rank || compute.action.stage != send.action.stage ||
        compute.action.microbatch != send.action.microbatch) {
      return false;
    }
    if (send.action.kind == ActionKind::send_forward) return compute.action.kind == ActionKind::forward;
    return compute.action.kind == ActionKind::backward || compute.action.kind == ActionKind::backward_input;
  }

  /// Returns the time at which all transfers before this SEND or RECV in the same queue of the rank have left
  /// the channel.
  Ns after_queue(const Item& end) const {
    Ns start = 0;
    for (const Item& other : items_) {
      if (other.rank == end.rank && other.position < end.position && is_transfer(other.action.kind) &&
          same_queue(other, end) && !passes_beside(other, end)) {
        start = std::max(start, other.released);
      }
    }
    return start;
  }

  /// Returns true if two transfers of one group do not delay each other in their queue, because they go to or
  /// come from different ranks, or in opposite directions. Under `boundary` all messages of a queue follow
  /// each other.
  bool passes_beside(const Item& a, const Item& b) const {
    if (a.batch != b.batch || e_.channels.model == ChannelModel::boundary) return false;
    return peer_rank(a) != peer_rank(b) || is_send(a.action.kind) != is_send(b.action.kind);
  }

  bool same_queue(const Item& a, const Item& b) const {
    const auto activation = [](const Item& i) {
      return i.action.kind == ActionKind::send_forward || i.action.kind == ActionKind::recv_forward;
    };
    const bool same_peer = peer_rank(a) == peer_rank(b);
    const auto low = [](const Item& i) { return std::min(i.action.stage, i.action.peer); };
    const auto high = [](const Item& i) { return std::max(i.action.stage, i.action.peer); };
    switch (e_.channels.model) {
      case ChannelModel::rank:
        return true;
      case ChannelModel::pair:
        return same_peer;
      case ChannelModel::direction:
        return activation(a) == activation(b);
      case ChannelModel::directed:
        return same_peer && is_send(a.action.kind) == is_send(b.action.kind);
      case ChannelModel::boundary:
        return activation(a) == activation(b) && low(a) == low(b) && high(a) == high(b);
    }
    return true;
  }

  std::int32_t peer_rank(const Item& end) const {
    return p_.placement.rank_of(end.action.peer, end.action.microbatch % p_.unit_count());
  }

  /// Returns the earliest start by the channel's capacity. RECV k of a queue waits for the action that reads
  /// the message of RECV k - capacity. A late R does not read it.
  Ns after_capacity(const Item& recv) const {
    if (e_.channels.capacity == 0) return 0;
    std::vector<const Item*> earlier;
    for (const Item& other : items_) {
      if (other.rank == recv.rank && other.position < recv.position && is_recv(other.action.kind) &&
          same_queue(other, recv)) {
        earlier.push_back(&other);
      }
    }
    const auto n = static_cast<std::size_t>(e_.channels.capacity);
    if (earlier.size() < n) return 0;
    const Item& holder = *earlier[earlier.size() - n];
    for (const Item& consumer : items_) {
      if (consumer.rank == recv.rank && consumer.position > holder.position &&
          is_compute(consumer.action.kind) && consumer.action.kind != ActionKind::recompute &&
          waits_for(consumer, holder)) {
        return consumer.end;
      }
    }
    return 0;
  }

  // --- collectives ----------------------------------------------------------------------------------

  Ns start_of_collective(const Item& item) const {
    Ns start = 0;
    for (const Item& member : items_) {
      if (!same_collective(member, item)) continue;
      start = std::max(
          {start, member.launched, after_program_order(member), after_collectives(member), resident(member)});
    }
    return start;
  }

  /// Returns the end of the collectives before this one on its rank.
  Ns after_collectives(const Item& member) const {
    Ns start = 0;
    for (const Item& other : items_) {
      if (other.rank == member.rank && other.position < member.position && is_collective(other.action.kind))
        start = std::max(start, other.end);
    }
    return start;
  }

  /// Returns true if two items are the same collective. The k-th collective on one member is the k-th on
  /// every other member.
  bool same_collective(const Item& a, const Item& b) const {
    return a.action.kind == b.action.kind && a.action.stage == b.action.stage &&
           occurrence(a) == occurrence(b);
  }
  std::ptrdiff_t occurrence(const Item& item) const {
    return std::ranges::count_if(items_, [&](const Item& other) {
      return other.rank == item.rank && other.position < item.position &&
             other.action.kind == item.action.kind && other.action.stage == item.action.stage;
    });
  }

  // --- copies to and from hosts ---------------------------------------------------------------------

  /// A copy starts when its rank has reached it, after the copies before it in its queue. A RELOAD also waits
  /// for its OFFLOAD.
  Ns start_of_copy(const Item& copy) const {
    Ns start = std::max(copy.launched, after_program_order(copy));
    for (const Item& other : items_) {
      if (other.rank != copy.rank || other.position >= copy.position || !is_host_copy(other.action.kind))
        continue;
      const bool same_queue = !e_.costs.host.duplex || other.action.kind == copy.action.kind;
      const bool is_offload_of = other.action.kind == ActionKind::offload &&
                                 other.action.stage == copy.action.stage &&
                                 other.action.microbatch == copy.action.microbatch;
      if (same_queue || is_offload_of) start = std::max(start, other.end);
    }
    return start;
  }

  // --- durations ------------------------------------------------------------------------------------

  Ns length_of(const Item& item) const {
    if (is_transfer(item.action.kind)) {
      return serialization_ns(transfer_bytes(e_.costs, edges_, item.action), route_of(item).bytes_per_second);
    }
    if (is_collective(item.action.kind)) return collective_ns(item.action);
    if (is_host_copy(item.action.kind)) {
      const Bytes bytes = e_.costs.stage_of(item.action).kept;
      return e_.costs.host.latency_ns + serialization_ns(bytes, e_.costs.host.bytes_per_second);
    }
    if (!is_compute(item.action.kind)) return 0;
    std::vector<const Item*> leaves;
    for (const Item& leaf : items_) {
      if (leaf.rank == item.rank && leaf.group == item.group) leaves.push_back(&leaf);
    }
    if (leaves.size() == 2) return pair_duration_ns(e_.costs, leaves[0]->action, leaves[1]->action);
    Ns total = 0;
    for (const Item* leaf : leaves) {
      total += duration_ns(e_.costs.stage_of(leaf->action), leaf->action.kind);
    }
    return total;
  }

  Ns latency_of(const Item& item) const {
    return is_transfer(item.action.kind) ? route_of(item).latency_ns : 0;
  }

  Route route_of(const Item& end) const {
    const Item& send = other_end_or_self(end, true);
    const Item& recv = other_end_or_self(end, false);
    return e_.cluster.route(send.rank, recv.rank);
  }

  Ns collective_ns(const Action& action) const {
    const StageCost& cost = e_.costs.stages[static_cast<std::size_t>(action.stage)];
    const auto group =
        ring_order(e_.cluster, p_.placement.stages[static_cast<std::size_t>(action.stage)].ranks);
    if (action.kind == ActionKind::unshard) {
      return ring_cost(e_.cluster, group, Collective::all_gather, cost.weights).duration_ns;
    }
    const Collective reduction = p_.sharding >= 1 ? Collective::reduce_scatter : Collective::all_reduce;
    return ring_cost(e_.cluster, group, reduction, cost.gradients).duration_ns;
  }

  const Experiment& e_;
  const Program& p_;
  EdgeNumbers edges_;
  std::vector<Item> items_;
  std::set<std::size_t> made_;                      // SENDs whose data are made, while launches are listed
  std::vector<std::vector<std::size_t>> launches_;  // by rank; empty without a launch order
};

}  // namespace

Timeline reference_engine(const Experiment& experiment) { return Reference(experiment).run(); }

}  // namespace penstock
