// Builds the graph of causes of a run during one walk of the lists (walk.hpp). It also divides the cost of
// each node into an ideal part and the parts that causes add.
//
//   0F0 --end--> 0SEND_F0 --end-----> 1F0        a message starts after its producer, and after the message
//    |              |                            before it has left the channel
//   end          release
//    v              v
//   0F1 --end--> 0SEND_F1 --end-----> 1F1        1F1 also follows 1F0 on its rank
//
// The walk reports a cause before anything that depends on it, so the order of the nodes is a topological
// order and one pass in this order finds all times. Tests: tests/sim/why_test.cpp.

#include "sim/why/account.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "report/why/explanation.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/launch_lists.hpp"
#include "schedules/check/launch_walk.hpp"
#include "schedules/check/walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// A receiver of ListWalk's calls. It writes the nodes of the graph and their inputs.
class GraphWriter {
 public:
  GraphWriter(const FlatProgram& flat, bool in_launch_order)
      : flat_(flat),
        clocks_(index(flat.rank_count)),
        hosts_(index(flat.rank_count)),
        first_waiting_(flat.messages.size(), kNone),
        first_holding_(in_launch_order ? flat.ops.size() : 0, kNone),
        resident_(index(flat.rank_count), kNoCauseNode) {
    graph_.of_position.assign(flat.ops.size(), kNoCauseNode);
    graph_.of_message.assign(flat.messages.size(), kNoCauseNode);
    graph_.first_input.push_back(0);
  }

  void compute(std::int32_t rank, std::int32_t position, std::span<const std::int32_t> messages) {
    for (const Moment moment : clocks_[index(rank)]) add_input(moment);
    for (const std::int32_t message : messages) add_input(end_of(graph_.of_message[index(message)]));
    if (flat_.has_launches) add_input(end_of(hosts_[index(rank)].last));
    const bool steps = flat_.actions[index(position)].kind == ActionKind::step;
    const CauseNode node = close(steps ? NodeKind::step : NodeKind::compute, position, rank);
    graph_.of_position[index(position)] = node;
    clocks_[index(rank)].assign(1, end_of(node));
    if (flat_.has_launches) hosts_[index(rank)].computed.push_back(node);
  }

  void pass(std::int32_t /*rank*/, std::int32_t /*position*/) {}

  void raise(std::int32_t message, const Cause& cause, bool /*last*/) {
    add_cause(first_waiting_[index(message)], cause);
  }

  void hold(std::int32_t /*rank*/, std::int32_t position, const Cause& cause) {
    add_cause(first_holding_[index(position)], cause);
  }

  void reside(std::int32_t rank, std::int32_t position) {
    CauseNode& newest = resident_[index(rank)];
    if (newest != kNoCauseNode) add_input(end_of(newest));
    add_inputs(first_holding_[index(position)]);
    newest = close(NodeKind::resident, position, rank);
  }

  void start(std::int32_t message, const Cause& /*last*/) {
    add_inputs(first_waiting_[index(message)]);
    const FlatMessage& what = flat_.messages[index(message)];
    const bool is_barrier = what.recv == kNone && flat_.ops[index(what.first)] == FlatOp::barrier;
    const bool is_copy = flat_.is_host_copy(what);
    const NodeKind kind = what.recv != kNone ? NodeKind::transfer
                          : is_barrier       ? NodeKind::barrier
                          : is_copy          ? NodeKind::copy
                                             : NodeKind::collective;
    std::int32_t rank = what.recv != kNone ? what.from_rank : kNone;
    if (is_copy) rank = flat_.rank_of(what.first);
    graph_.of_message[index(message)] = close(kind, message, rank);
  }

  void wait(std::int32_t rank, std::int32_t message) {
    std::vector<Moment>& clock = clocks_[index(rank)];
    // The clock of a rank has the moments after which the rank continues in its list. If such moments are
    // inputs of the message, the message ends after them, so its end replaces them. At the receiver, an eager
    // message does not wait for the clock, so it replaces nothing. The ends of other messages of the group
    // stay in the clock.
    const FlatMessage& what = flat_.messages[index(message)];
    const CauseNode node = graph_.of_message[index(message)];
    const auto inputs =
        std::span(graph_.inputs)
            .subspan(graph_.first_input[node], graph_.first_input[node + 1] - graph_.first_input[node]);
    if (!what.eager || what.from_rank == rank)
      std::erase_if(clock, [&](Moment moment) { return std::ranges::binary_search(inputs, moment); });
    clock.push_back(end_of(node));
  }

  void launch(std::int32_t rank, std::int32_t position) {
    Host& host = hosts_[index(rank)];
    if (host.last != kNoCauseNode) add_input(end_of(host.last));
    const auto ahead = index(flat_.most_ahead);
    const bool computes = flat_.ops[index(position)] == FlatOp::compute;
    if (computes && ahead > 0 && host.computed.size() >= ahead)
      add_input(end_of(host.computed[host.computed.size() - ahead]));
    host.last = close(NodeKind::launch, position, rank);
  }

  /// Returns the finished graph. Its last node is the end of the run.
  CauseGraph graph() && {
    std::vector<bool> is_input(graph_.size(), false);
    for (const Moment moment : graph_.inputs)
      is_input[node_of(moment)] = is_input[node_of(moment)] || !is_release(moment);
    for (const std::vector<Moment>& clock : clocks_) {
      for (const Moment moment : clock) add_input(moment);
    }
    for (CauseNode node = 0; node < is_input.size(); ++node) {
      const NodeKind kind = graph_.kinds[node];
      const bool is_message =
          kind == NodeKind::transfer || kind == NodeKind::collective || kind == NodeKind::copy;
      if (is_message && !is_input[node]) add_input(end_of(node));
    }
    close(NodeKind::finish, kNone, kNone);
    return std::move(graph_);
  }

 private:
  /// An entry in a list of inputs. The list belongs to a message that has not started, or to a launch that is
  /// not yet resident.
  struct Waiting {
    Moment moment = 0;
    std::int32_t next = kNone;
  };
  struct Host {
    CauseNode last = kNoCauseNode;  // the host's latest launch
    std::vector<CauseNode> computed;
  };

  void add_input(Moment moment) { graph_.inputs.push_back(moment); }

  void add_inputs(std::int32_t first) {
    for (std::int32_t i = first; i != kNone; i = waiting_[index(i)].next)
      add_input(waiting_[index(i)].moment);
  }

  /// Adds the moments of a cause to the list of inputs that begins at `first`. A moment is the end or the
  /// release of a node.
  void add_cause(std::int32_t& first, const Cause& cause) {
    switch (cause.kind) {
      case CauseKind::listed:
        break;
      case CauseKind::clock:
        for (const Moment moment : clocks_[index(cause.rank)]) add_waiting(first, moment);
        break;
      case CauseKind::producer:
        add_waiting(first, end_of(graph_.of_position[index(cause.which)]));
        break;
      case CauseKind::release:
        add_waiting(first, release_of(graph_.of_message[index(cause.which)]));
        break;
      case CauseKind::collective:
        add_waiting(first, end_of(graph_.of_message[index(cause.which)]));
        break;
      case CauseKind::resident:
        add_waiting(first, end_of(resident_[index(cause.rank)]));
        break;
    }
    if (cause.launched) add_waiting(first, end_of(hosts_[index(cause.rank)].last));
  }

  void add_waiting(std::int32_t& first, Moment moment) {
    waiting_.push_back({moment, std::exchange(first, static_cast<std::int32_t>(waiting_.size()))});
  }

  /// Makes a node from the inputs that were added since the previous node. A moment is an input only once,
  /// although a message may be the previous one in the queues at both of its ends.
  CauseNode close(NodeKind kind, std::int32_t subject, std::int32_t rank) {
    const auto begin = graph_.inputs.begin() + graph_.first_input.back();
    std::sort(begin, graph_.inputs.end());
    graph_.inputs.erase(std::unique(begin, graph_.inputs.end()), graph_.inputs.end());
    graph_.first_input.push_back(static_cast<std::uint32_t>(graph_.inputs.size()));
    graph_.kinds.push_back(kind);
    graph_.subjects.push_back(subject);
    graph_.ranks.push_back(rank);
    return graph_.finish();
  }

  const FlatProgram& flat_;
  std::vector<std::vector<Moment>> clocks_;  // moments after which each rank continues in its list
  std::vector<Host> hosts_;
  std::vector<std::int32_t> first_waiting_;  // first entry of the list in `waiting_`, for each message
  std::vector<std::int32_t> first_holding_;  // first entry of the list, for each position of a launch
  std::vector<CauseNode> resident_;          // newest resident launch of each rank
  std::vector<Waiting> waiting_;
  CauseGraph graph_;
};

/// A class of actions: those of one kind on one group of stages, such as all F of stage 2.
struct ActionClass {
  std::vector<ActionKind> kinds;
  std::vector<std::int32_t> stages;
  std::map<std::int32_t, std::vector<Ns>> durations;  // durations on each rank
  std::map<std::int32_t, Ns> medians;                 // median duration on each rank
  Ns median = 0;
  std::int64_t count = 0;
  double weight = 0;
  Ns ideal = 0;
};

/// A table with the class of each compute group.
class ActionClasses {
 public:
  ActionClasses(const CauseGraph& graph, const FlatProgram& flat, const Placement& placement,
                const std::vector<Ns>& durations)
      : flat_(flat), placement_(placement) {
    of_node_.assign(graph.size(), 0);
    for (CauseNode node = 0; node < graph.size(); ++node) {
      if (graph.kinds[node] != NodeKind::compute) continue;
      const std::size_t number = class_of(graph.subjects[node]);
      of_node_[node] = number;
      classes_[number].durations[graph.ranks[node]].push_back(durations[index(graph.subjects[node])]);
    }
    const std::vector<double> weights = stage_weights();
    for (ActionClass& one : classes_) {
      std::vector<Ns> medians;
      for (auto& [rank, values] : one.durations) {
        one.count += std::ssize(values);
        one.medians[rank] = median_of(values);
        medians.push_back(one.medians[rank]);
      }
      one.median = median_of(medians);
      for (const std::int32_t stage : one.stages) one.weight += weights[index(stage)];
      one.weight /= static_cast<double>(one.stages.size());
    }
    share_work();
  }

  const ActionClass& of(CauseNode node) const { return classes_[of_node_[node]]; }

 private:
  using Key = std::vector<std::pair<ActionKind, std::int32_t>>;

  std::size_t class_of(std::int32_t position) {
    Key key;
    for (std::int32_t p = position; p < flat_.group_end(position); ++p)
      key.emplace_back(flat_.actions[index(p)].kind, flat_.actions[index(p)].stage);
    // Neighbouring nodes are often of one class, but a search of the map is fast enough.
    const auto [entry, is_new] = numbers_.try_emplace(key, classes_.size());
    if (is_new) {
      classes_.emplace_back();
      for (const auto& [kind, stage] : key) {
        classes_.back().kinds.push_back(kind);
        classes_.back().stages.push_back(stage);
      }
    }
    return entry->second;
  }

  /// Returns, for each stage, its part of a rank's work in an evenly cut model. Each rank that holds only
  /// this stage counts 1, and each rank that holds two stages counts 1/2.
  std::vector<double> stage_weights() const {
    std::vector<double> held(index(flat_.rank_count), 0);
    for (const StagePlacement& stage : placement_.stages) {
      for (const std::int32_t rank : stage.ranks) held[index(rank)] += 1;
    }
    std::vector<double> weights;
    for (const StagePlacement& stage : placement_.stages) {
      weights.push_back(0);
      for (const std::int32_t rank : stage.ranks) weights.back() += 1 / held[index(rank)];
    }
    return weights;
  }

  /// Sets the ideal duration of each class, d(s) = w(s) * sum(n m) / sum(n w). n is the number of actions
  /// in a class, m their median duration and w the weight of the stage. The sums are over all classes of
  /// the same kinds.
  void share_work() {
    struct Sums {
      double work = 0;
      double weight = 0;
    };
    std::map<std::vector<ActionKind>, Sums> sums;
    for (const ActionClass& one : classes_) {
      Sums& sum = sums[one.kinds];
      sum.work += static_cast<double>(one.count) * static_cast<double>(one.median);
      sum.weight += static_cast<double>(one.count) * one.weight;
    }
    for (ActionClass& one : classes_) {
      const Sums& sum = sums[one.kinds];
      one.ideal = std::llround(one.weight * sum.work / sum.weight);
    }
  }

  const FlatProgram& flat_;
  const Placement& placement_;
  std::map<Key, std::size_t> numbers_;
  std::vector<ActionClass> classes_;
  std::vector<std::size_t> of_node_;
};

}  // namespace

Ns median_of(std::vector<Ns> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  const Ns below = *std::max_element(values.begin(), middle);
  return below + (*middle - below) / 2;
}

tl::expected<CauseGraph, WalkState> cause_graph(const FlatProgram& flat, const ChannelOptions& channels) {
  GraphWriter writer(flat, has_launch_order(channels));
  if (has_launch_order(channels)) {
    if (auto stalled = LaunchWalk<GraphWriter>(flat, writer).run())
      return tl::unexpected(WalkState{std::move(stalled->cursor), std::move(stalled->pending)});
    return std::move(writer).graph();
  }
  if (auto stalled = ListWalk<GraphWriter>(flat, channels, writer).run())
    return tl::unexpected(*std::move(stalled));
  return std::move(writer).graph();
}

std::array<IdleCause, 3> causes_of(NodeKind kind) {
  switch (kind) {
    case NodeKind::compute:
      return {IdleCause::imbalance, IdleCause::slow_rank, IdleCause::variation};
    case NodeKind::step:
      return {IdleCause::step, IdleCause::step, IdleCause::step};
    case NodeKind::transfer:
      return {IdleCause::bandwidth, IdleCause::shared_link, IdleCause::latency};
    case NodeKind::collective:
      return {IdleCause::collective, IdleCause::collective, IdleCause::collective};
    case NodeKind::copy:
      return {IdleCause::offload, IdleCause::offload, IdleCause::offload};
    case NodeKind::barrier:
    case NodeKind::launch:
    case NodeKind::resident:
    case NodeKind::finish:
      break;
  }
  return {IdleCause::launch, IdleCause::launch, IdleCause::launch};
}

GraphCosts graph_costs(const CauseGraph& graph, const FlatProgram& flat, const Placement& placement,
                       const RealDurations& durations) {
  GraphCosts costs;
  costs.nodes.resize(graph.size());
  const ActionClasses classes(graph, flat, placement, durations.compute);
  for (CauseNode node = 0; node < graph.size(); ++node) {
    NodeCost& cost = costs.nodes[node];
    const std::int32_t subject = graph.subjects[node];
    switch (graph.kinds[node]) {
      case NodeKind::compute: {
        const ActionClass& own = classes.of(node);
        const Ns on_rank = own.medians.at(graph.ranks[node]);
        cost = {.ideal_ns = own.ideal,
                .added_ns = {own.median - own.ideal, on_rank - own.median,
                             durations.compute[index(subject)] - on_rank}};
        break;
      }
      case NodeKind::step:
        cost.added_ns[0] = durations.compute[index(subject)];
        break;
      case NodeKind::transfer: {
        const Ns alone = durations.hold_alone[index(subject)];
        cost.added_ns = {alone, durations.hold[index(subject)] - alone, durations.latency[index(subject)]};
        break;
      }
      case NodeKind::collective:
      case NodeKind::copy:
        cost.added_ns[0] = durations.hold[index(subject)] + durations.latency[index(subject)];
        break;
      case NodeKind::launch:
        cost.added_ns[0] = durations.launch;
        break;
      case NodeKind::barrier:
      case NodeKind::resident:
      case NodeKind::finish:
        break;
    }
  }
  return costs;
}

GraphTimes::GraphTimes(const CauseGraph& graph, const GraphCosts& costs)
    : graph_(graph),
      costs_(costs),
      moments_(2 * graph.size()),
      starts_(graph.size()),
      lag_(costs.lag.size()) {}

Ns GraphTimes::compute(const RealParts& parts) {
  // For each kind of node, the fractions of its three added costs that are included.
  std::array<std::array<std::int64_t, 3>, kNodeKinds> of_kind{};
  for (std::size_t kind = 0; kind < kNodeKinds; ++kind) {
    const auto causes = causes_of(static_cast<NodeKind>(kind));
    for (std::size_t i = 0; i < causes.size(); ++i)
      of_kind[kind][i] = parts.of[static_cast<std::size_t>(causes[i])];
  }
  const std::int64_t queued = parts.of[static_cast<std::size_t>(IdleCause::queue)];
  const std::int64_t launched = parts.of[static_cast<std::size_t>(IdleCause::launch)];
  for (CauseNode node = 0; node < graph_.size(); ++node) {
    Ns start = 0;
    for (std::uint32_t i = graph_.first_input[node]; i < graph_.first_input[node + 1]; ++i)
      start = std::max(start, moments_[graph_.inputs[i]]);
    if (!lag_.empty()) {
      lag_[node] = launched * costs_.lag[node];
      start += lag_[node];
    }
    starts_[node] = start;
    const NodeCost& cost = costs_.nodes[node];
    const auto& real = of_kind[static_cast<std::size_t>(graph_.kinds[node])];
    moments_[end_of(node)] = start + parts.whole * cost.ideal_ns + real[0] * cost.added_ns[0] +
                             real[1] * cost.added_ns[1] + real[2] * cost.added_ns[2];
    moments_[release_of(node)] = start + queued * (cost.added_ns[0] + cost.added_ns[1]);
  }
  return starts_.back();
}

}  // namespace penstock
