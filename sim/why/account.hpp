#pragma once
// The graph of causes of a run. For each action, message and launch by a host, it says what must end or
// start before it can start. A node starts at the latest of its inputs and then takes its costs. So the
// graph reproduces the run's times, and also gives the times with other costs.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "report/why/explanation.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/check/walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

enum class NodeKind : std::uint8_t {
  compute,     // a group of compute actions
  step,        // an optimizer step
  transfer,    // a message between two ranks
  collective,  // an UNSHARD or REDUCE_GRAD of a group of ranks
  copy,        // an OFFLOAD or RELOAD
  barrier,     // a wait of all ranks for each other
  launch,      // a launch by a rank's host
  resident,    // the start of a launch in launch order, which takes no time (launch_walk.hpp)
  finish,      // the end of the run, the last node
};
inline constexpr std::size_t kNodeKinds = 9;

/// The number of a node in the graph of causes. The inputs of a node have smaller numbers.
using CauseNode = std::uint32_t;
inline constexpr CauseNode kNoCauseNode = std::numeric_limits<CauseNode>::max();

/// A moment of a node: its end, or its release, at which a message has left its channel. Tables of times have
/// two entries for each node.
using Moment = std::uint32_t;
constexpr Moment end_of(CauseNode node) { return 2 * node; }
constexpr Moment release_of(CauseNode node) { return 2 * node + 1; }
constexpr CauseNode node_of(Moment moment) { return moment / 2; }
constexpr bool is_release(Moment moment) { return moment % 2 == 1; }

struct CauseGraph {
  std::vector<NodeKind> kinds;
  /// The subject of each node. For a compute group, step, launched action or resident launch, it is the
  /// position in the flat program. For a message, collective or barrier, it is the number of the message.
  std::vector<std::int32_t> subjects;
  /// rank that computes, sends, copies or launches; kNone for collectives, barriers and the end of the run
  std::vector<std::int32_t> ranks;
  /// The place of each node's inputs. The inputs of node n are inputs[first_input[n]] to
  /// inputs[first_input[n + 1] - 1], without repetitions.
  std::vector<std::uint32_t> first_input;
  std::vector<Moment> inputs;
  /// The node of each position that holds a compute group or step, and kNoCauseNode for all other
  /// positions.
  std::vector<CauseNode> of_position;
  std::vector<CauseNode> of_message;

  std::size_t size() const { return kinds.size(); }
  CauseNode finish() const { return static_cast<CauseNode>(size() - 1); }
};

/// Returns the graph of causes of a flat program. If ListWalk stalls in the program, returns the state in
/// which it stalled.
tl::expected<CauseGraph, WalkState> cause_graph(const FlatProgram& flat, const ChannelOptions& channels);

/// The costs of a node: the time that it takes in the ideal run, and the time that each of up to three
/// causes adds.
struct NodeCost {
  Ns ideal_ns = 0;
  std::array<Ns, 3> added_ns{};
};
/// Returns the causes of the three added costs of a node. If a kind of node has fewer causes, its last
/// cause is repeated with costs of 0.
std::array<IdleCause, 3> causes_of(NodeKind kind);

struct GraphCosts {
  std::vector<NodeCost> nodes{};
  /// The time from the latest input of each node to its start, which counts as IdleCause::launch. Empty if
  /// every node starts at its latest input, as in predictions.
  std::vector<Ns> lag{};
};

/// The durations of a run that was simulated or measured. `hold` and `latency` have an entry for each
/// message.
struct RealDurations {
  std::vector<Ns> compute;  ///< duration at the first position of each compute group
  std::vector<Ns> hold;     ///< time for which a message occupied its channel, or a collective its ranks
  std::vector<Ns> latency;
  /// The time for which each message would have occupied its channel if no other message had used its
  /// links.
  std::vector<Ns> hold_alone;
  Ns launch = 0;
};

/// Returns the median of durations, which is the mean of the two middle ones if their number is even.
/// Requires at least one value.
Ns median_of(std::vector<Ns> values);

/// Splits each duration into its ideal cost and the times that causes add. The ideal duration of a kind of
/// action is the same fraction of the kind's total work on every rank.
GraphCosts graph_costs(const CauseGraph& graph, const FlatProgram& flat, const Placement& placement,
                       const RealDurations& durations);

/// For each cause, the fraction of its added costs that a computation of times includes. The fraction is 0 in
/// the ideal run, and 1 in the real run. It is `of[cause]` / `whole`. All times are multiplied by `whole`, so
/// that they stay whole numbers.
struct RealParts {
  std::int64_t whole = 1;
  std::array<std::int64_t, kIdleCauses> of{};

  /// Returns an object with the same fraction part / whole for all causes.
  static RealParts all(std::int64_t part, std::int64_t whole) {
    RealParts parts{.whole = whole};
    parts.of.fill(part);
    return parts;
  }
};

/// A calculator of the times in a graph of causes. It can be used for many tables of costs, and allocates
/// its memory only once.
class GraphTimes {
 public:
  /// Keeps references to both arguments, which must outlive the object.
  GraphTimes(const CauseGraph& graph, const GraphCosts& costs);

  /// Computes all times of the graph, multiplied by parts.whole. Returns the end of the run.
  Ns compute(const RealParts& parts);

  /// Returns the moments that compute() has found, two for each node.
  const std::vector<Ns>& moments() const { return moments_; }
  Ns start(CauseNode node) const { return starts_[node]; }
  Ns lag(CauseNode node) const { return lag_.empty() ? 0 : lag_[node]; }

 private:
  const CauseGraph& graph_;
  const GraphCosts& costs_;
  std::vector<Ns> moments_;
  std::vector<Ns> starts_;
  std::vector<Ns> lag_;
};

// Divides the idle time of a run among its causes. The parts of each idle interval add up to its length,
// to the nanosecond.

/// An interval of idle time of a rank, which ends before the action of a node.
struct IdlePart {
  std::int32_t rank = 0;
  CauseNode node = kNoCauseNode;  ///< compute group or step after the interval, or the end of the run
  /// Compute group or step before the interval; kNoCauseNode at the start of the run.
  CauseNode previous = kNoCauseNode;
  IdlePhase phase = IdlePhase::order;
  Ns start_ns = 0;
  Ns end_ns = 0;
  Ns ideal_ns = 0;
  CauseTimes causes{};
};

/// The division of the idle time of all ranks into causes.
struct Account {
  Ns makespan_ns = 0;
  Ns ideal_ns = 0;  ///< makespan of the ideal run
  /// The idle intervals of all ranks, rank by rank in list order. Each compute group and each step has one,
  /// and the end of the run has one.
  std::vector<IdlePart> parts;
  /// The derivative of the makespan with respect to the costs that follow each moment. It is averaged over
  /// the samples.
  std::vector<double> moment_weights;
};

/// Divides the idle time of a run among its causes. It finds the binding inputs of each node (those that end
/// last) at several points between the ideal run and the real run. `samples` is the number of these points.
Account account_of(const CauseGraph& graph, const FlatProgram& flat, const GraphCosts& costs,
                   std::int32_t samples);

/// Returns, for each moment, the derivative of the makespan with respect to the costs that follow it. It is
/// taken at the times in `times`.
std::vector<double> makespan_weights(const CauseGraph& graph, const GraphTimes& times);

/// A lower bound of the makespan: the least time that any order of the program's actions on their ranks
/// takes in the ideal run.
struct IdealBound {
  Ns bound_ns = 0;
  Ns head_ns = 0;  ///< time before the most loaded rank can begin, summed over iterations
  Ns tail_ns = 0;  ///< time after the most loaded rank has ended, summed over iterations
};
/// Computes the lower bound from the data that actions need. In a synchronous program, each iteration has
/// its own bound, because its first forward pass waits for the optimizer. The result is their sum.
IdealBound ideal_bound(const CauseGraph& graph, const FlatProgram& flat, const Program& program,
                       const GraphCosts& costs);

/// For each compute group, the nodes of the compute groups that produce its data, as one list for each node.
struct DataInputs {
  std::vector<std::uint32_t> first;  ///< the inputs of node n are nodes[first[n]] to nodes[first[n + 1] - 1]
  std::vector<CauseNode> nodes;
};
/// Returns, for each compute group, the compute groups that produce the data it reads. These are
/// activations, gradients, and data that an earlier action of the same microbatch and stage has left on the
/// rank.
DataInputs data_inputs(const CauseGraph& graph, const FlatProgram& flat, const Program& program);

// Walks backwards through the graph of causes from a node, always to the latest input. The result is a chain
// of events, in which each event waited for the one before it.

/// Returns the text of a compute group, such as "1F3" or "0F5;3B2".
std::string group_text(const FlatProgram& flat, std::int32_t position);

/// Returns the chain of events that `node` waited for, from `from_ns` to the start of `node`, in order of
/// time. The chain follows the binding input of each node, which ends last. If several inputs bind, it
/// follows an action of the same rank, or else the first input. `times` are the times of the real run.
std::vector<ChainLink> chain_of(const CauseGraph& graph, const FlatProgram& flat, const GraphTimes& times,
                                CauseNode node, Ns from_ns);

/// A finder of actions that a rank could have run while it was idle, because they had all their inputs.
class ReadyActions {
 public:
  /// Keeps references to the arguments, which must outlive the object. `times` are the real times.
  ReadyActions(const CauseGraph& graph, const FlatProgram& flat, const Program& program,
               const GraphTimes& times);

  /// Returns the first compute group behind part.node in the rank's list that had all its inputs when the
  /// idle interval began. Optimizer steps do not count. Returns nothing if there is none.
  std::optional<ReadyAction> behind(const IdlePart& part) const;

 private:
  /// The compute groups of one rank in list order. `least` is a binary tree over ranges of the list. It
  /// holds the earliest time at which an action of each range is ready.
  struct RankList {
    std::vector<CauseNode> nodes;
    std::vector<Ns> least;
    std::size_t leaves = 1;
  };

  const FlatProgram& flat_;
  const CauseGraph& graph_;
  std::vector<RankList> ranks_;
  std::vector<std::size_t> place_of_;  // place of each node in its rank's list
};

}  // namespace penstock
