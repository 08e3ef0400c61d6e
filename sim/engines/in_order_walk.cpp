// When both ends of a channel agree on the order of its transfers, no queue needs to be built: the k-th
// transfer of a channel starts at max(end of its producer, the channel's release by transfer k-1), and a SEND
// decides the times of its RECV. Two passes: one copies the lists into spans and joins SENDs with RECVs, one
// runs each rank ahead until a transfer is missing that has not been sent.

#include "sim/engines/in_order_walk.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/edge_numbers.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/iterations.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "sim/network/message_costs.hpp"

namespace penstock {
namespace {

constexpr std::int32_t kNobody = -1;
constexpr Ns kNotSent = -1;

/// One microbatch's activation or gradient on one stage edge. Without a RECV it stays on its rank.
struct Transfer {
  Ns produced_ns = 0;
  Ns arrival_ns = kNotSent;
  std::int32_t from_rank = kNobody;
  std::int32_t to_rank = kNobody;
  std::int32_t recv = kNobody;   // span
  std::int32_t place = kNobody;  // in its channel, as the end that was reached first counts
};

class InOrderWalk {
 public:
  explicit InOrderWalk(const Experiment& experiment)
      : program_(experiment.program),
        costs_(experiment.costs),
        prices_(experiment),
        units_(index(program_.unit_count()) * index(program_.iterations)),
        ranks_(index(program_.rank_count())),
        stages_(index(program_.stage_count())),
        edges_(program_),
        feeding_(stages_),
        fed_(stages_) {
    bytes_.reserve(2 * edges_.size());
    for (std::size_t number = 0; number < edges_.size(); ++number) {
      const auto [from, to] = edges_.edges()[number];
      feeding_[index(to)].push_back(number);
      fed_[index(from)].push_back(number);
      const Action activation = send_of({.flow = Flow::activation, .from = from, .to = to});
      const Action gradient = send_of({.flow = Flow::gradient, .from = to, .to = from});
      bytes_.push_back(transfer_bytes(costs_, edges_, activation));
      bytes_.push_back(transfer_bytes(costs_, edges_, gradient));
    }
    transfers_.resize(2 * edges_.size() * units_);
    for (const StageCost& cost : costs_.stages) {
      for (const ActionKind kind : kComputeKinds) durations_.push_back(duration_ns(cost, kind));
    }
  }

  std::optional<Timeline> run() {
    if (!copy_lists()) return std::nullopt;
    cursor_.assign(rank_begin_.begin(), rank_begin_.end() - 1);
    clock_.assign(ranks_, 0);
    released_.assign(ranks_ * ranks_, 0);
    sent_.assign(ranks_ * ranks_, 0);
    received_.assign(ranks_ * ranks_, 0);
    stands_at_.assign(ranks_, kNowhere);
    for (std::size_t rank = ranks_; rank-- > 0;) awake_.push_back(rank);
    while (!awake_.empty() && in_order_) {
      const std::size_t rank = awake_.back();
      awake_.pop_back();
      advance(rank);
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank) in_order_ &= cursor_[rank] == rank_begin_[rank + 1];
    if (!in_order_) return std::nullopt;
    for (const Ns end : clock_) timeline_.makespan_ns = std::max(timeline_.makespan_ns, end);
    return std::move(timeline_);
  }

 private:
  static constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();
  static constexpr std::array kComputeKinds = {ActionKind::forward,        ActionKind::backward,
                                               ActionKind::backward_input, ActionKind::backward_weight,
                                               ActionKind::recompute,      ActionKind::step};

  // --- first pass ---------------------------------------------------------------------------------

  /// False when there are collectives.
  bool copy_lists() {
    std::size_t total = 0;
    for (const auto& list : program_.ranks) total += list.size();
    timeline_.rank_count = program_.rank_count();
    timeline_.spans.reserve(total * index(program_.iterations));
    for (std::int32_t rank = 0; rank < program_.rank_count(); ++rank) {
      rank_begin_.push_back(timeline_.spans.size());
      const std::vector<std::int32_t> replicas = replicas_on(rank);
      const std::vector<std::int32_t> steps = steps_per_pass(program_, rank);
      for (std::int32_t iteration = 0; iteration < program_.iterations; ++iteration) {
        for (const Action& action : program_.ranks[index(rank)]) {
          if (is_collective(action.kind)) return false;
          copy(rank, of_iteration(action, iteration, program_.unit_count(), steps),
               replicas[index(action.stage)]);
        }
      }
    }
    rank_begin_.push_back(timeline_.spans.size());
    return true;
  }

  /// By stage: the replica that the rank is.
  std::vector<std::int32_t> replicas_on(std::int32_t rank) const {
    std::vector<std::int32_t> replicas(static_cast<std::size_t>(program_.stage_count()));
    for (std::int32_t stage = 0; stage < program_.stage_count(); ++stage) {
      replicas[index(stage)] = program_.placement.replica_on(stage, rank);
    }
    return replicas;
  }

  void copy(std::int32_t rank, const Action& action, std::int32_t replica) {
    if (is_send(action.kind)) {
      transfer_of(action).from_rank = rank;
    } else if (is_recv(action.kind)) {
      Transfer& transfer = transfer_of(action);
      transfer.to_rank = rank;
      transfer.recv = static_cast<std::int32_t>(timeline_.spans.size());
    }
    timeline_.spans.push_back({.rank = rank, .action = action, .replica = replica});
  }

  Transfer& transfer_of(const Action& action) {
    return transfers_[lane_of(action) * units_ + index(action.microbatch)];
  }

  /// The stage edge of a SEND or RECV, and its direction.
  std::size_t lane_of(const Action& action) const { return lane(edges_.of(action), flow_of(action.kind)); }

  static std::size_t lane(std::size_t edge, Flow flow) { return 2 * edge + static_cast<std::size_t>(flow); }

  // --- second pass --------------------------------------------------------------------------------

  void advance(std::size_t rank) {
    stands_at_[rank] = kNowhere;
    std::size_t position = cursor_[rank];
    while (position < rank_begin_[rank + 1]) {
      Span& span = timeline_.spans[position];
      if (is_send(span.action.kind)) {
        send(span);
      } else if (is_recv(span.action.kind)) {
        take_place(transfer_of(span.action), received_);
      } else if (span.action.kind == ActionKind::reshard) {
        span.start_ns = span.end_ns = clock_[rank];
      } else {
        const std::size_t end = compute(rank, position);
        if (end == position) break;
        position = end;
        continue;
      }
      ++position;
    }
    cursor_[rank] = position;
  }

  /// Runs the group of actions that starts at the position; returns its end, or the position when the rank
  /// has to wait.
  std::size_t compute(std::size_t rank, std::size_t position) {
    Ns start = clock_[rank];
    std::size_t end = position;
    do {
      const std::size_t missing = raise_to_arrivals(timeline_.spans[end].action, start);
      if (missing != kNowhere) {
        stands_at_[rank] = missing;
        return position;
      }
    } while (timeline_.spans[end++].action.overlaps_next);
    clock_[rank] = start + group_duration(position, end);
    for (std::size_t leaf = position; leaf < end; ++leaf) {
      timeline_.spans[leaf].start_ns = start;
      timeline_.spans[leaf].end_ns = clock_[rank];
      produce(timeline_.spans[leaf].action, clock_[rank]);
    }
    return end;
  }

  /// Moves `start` behind the arrival of all that the action consumes; returns the transfer that is missing.
  std::size_t raise_to_arrivals(const Action& action, Ns& start) const {
    const auto flow = input_of(action.kind, program_.recompute);
    if (!flow) return kNowhere;
    for (const std::size_t edge : (flow == Flow::gradient ? fed_ : feeding_)[index(action.stage)]) {
      const std::size_t id = lane(edge, *flow) * units_ + index(action.microbatch);
      if (transfers_[id].recv == kNobody) continue;
      if (transfers_[id].arrival_ns == kNotSent) return id;
      start = std::max(start, transfers_[id].arrival_ns);
    }
    return kNowhere;
  }

  Ns group_duration(std::size_t begin, std::size_t end) const {
    const Action& first = timeline_.spans[begin].action;
    if (end == begin + 1) {
      const std::size_t kind =
          first.kind == ActionKind::step ? kComputeKinds.size() - 1 : static_cast<std::size_t>(first.kind);
      return durations_[index(first.stage) * kComputeKinds.size() + kind];
    }
    std::vector<Action> group;
    for (std::size_t leaf = begin; leaf < end; ++leaf) group.push_back(timeline_.spans[leaf].action);
    return group_duration_ns(costs_, group);
  }

  void produce(const Action& action, Ns end) {
    const auto flow = output_of(action.kind);
    if (!flow) return;
    for (const std::size_t edge : (flow == Flow::activation ? fed_ : feeding_)[index(action.stage)]) {
      transfers_[lane(edge, *flow) * units_ + index(action.microbatch)].produced_ns = end;
    }
  }

  void send(Span& span) {
    const std::size_t lane = lane_of(span.action);
    Transfer& transfer = transfers_[lane * units_ + index(span.action.microbatch)];
    take_place(transfer, sent_);
    const TransferPrices::Price price = prices_.of(transfer.from_rank, transfer.to_rank, bytes_[lane]);
    Ns& released = released_[channel(transfer)];
    span.start_ns = std::max(transfer.produced_ns, released);
    released = span.start_ns + price.hold_ns;
    span.end_ns = transfer.arrival_ns = released + price.latency_ns;
    timeline_.makespan_ns = std::max(timeline_.makespan_ns, span.end_ns);
    Span& recv = timeline_.spans[index(transfer.recv)];
    recv.start_ns = span.start_ns;
    recv.end_ns = span.end_ns;
    const auto to = index(transfer.to_rank);
    if (stands_at_[to] == static_cast<std::size_t>(&transfer - transfers_.data())) awake_.push_back(to);
  }

  std::size_t channel(const Transfer& transfer) const {
    return index(transfer.from_rank) * ranks_ + index(transfer.to_rank);
  }

  /// Counts the transfer at one end of its channel, and compares it with the count at the other end.
  void take_place(Transfer& transfer, std::vector<std::int32_t>& counts) {
    const std::int32_t place = counts[channel(transfer)]++;
    if (transfer.place == kNobody) {
      transfer.place = place;
    } else {
      in_order_ &= transfer.place == place;
    }
  }

  const Program& program_;
  const CostTable& costs_;
  TransferPrices prices_;
  std::size_t units_;  // of all iterations
  std::size_t ranks_;
  std::size_t stages_;
  EdgeNumbers edges_;
  std::vector<std::vector<std::size_t>> feeding_, fed_;  // by stage: the edges into it, and out of it
  std::vector<Bytes> bytes_;                             // by lane: an edge and a direction
  std::vector<Transfer> transfers_;                      // by lane and unit
  std::vector<Ns> durations_;                            // by stage and kind
  std::vector<std::size_t> rank_begin_;                  // by rank, and the end
  std::vector<std::size_t> cursor_;                      // by rank
  std::vector<Ns> clock_;                                // by rank
  std::vector<Ns> released_;                             // by channel
  std::vector<std::int32_t> sent_, received_;            // by channel
  std::vector<std::size_t> stands_at_;                   // by rank: the transfer it waits for
  std::vector<std::size_t> awake_;
  bool in_order_ = true;
  Timeline timeline_;
};

bool suits(const ChannelOptions& channels) {
  return channels.model == ChannelModel::directed && !channels.blocking && channels.capacity == 0 &&
         channels.eager_bytes == 0;
}

}  // namespace

std::optional<Timeline> in_order_walk(const Experiment& experiment) {
  const Program& program = experiment.program;
  if (!suits(experiment.channels) || (program.barrier && program.iterations > 1)) return std::nullopt;
  if (experiment.costs.microbatches_differ()) return std::nullopt;
  return InOrderWalk(experiment).run();
}

}  // namespace penstock
