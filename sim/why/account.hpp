#pragma once
// Divides the idle time of a run among its causes. The parts of each interval add up to its length, to the
// nanosecond.

#include <cstdint>
#include <vector>

#include "report/why/explanation.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "sim/why/cause_graph.hpp"

namespace penstock {

/// The idle time of a rank before one of its nodes.
struct IdlePart {
  std::int32_t rank = 0;
  CauseNode node = kNoCauseNode;  ///< compute group or step after the interval, or the end of the run
  CauseNode previous =
      kNoCauseNode;  ///< compute group or step before the interval; kNoCauseNode at the start of the run
  IdlePhase phase = IdlePhase::order;
  Ns start_ns = 0;
  Ns end_ns = 0;
  Ns ideal_ns = 0;
  CauseTimes causes{};
};

/// The parts of the idle time of all ranks.
struct Account {
  Ns makespan_ns = 0;
  Ns ideal_ns = 0;  ///< makespan of the ideal run
  /// One part for each compute group and step and one for the end of the run, rank by rank in list order.
  std::vector<IdlePart> parts;
  /// The derivative of the makespan by the costs that follow each moment, averaged over the samples.
  std::vector<double> moment_weights;
};

/// Divides the idle time. `samples` is the number of points between the ideal run and the real run at which
/// the binding inputs of each node are found.
Account account_of(const CauseGraph& graph, const FlatProgram& flat, const GraphCosts& costs,
                   std::int32_t samples);

/// Returns the derivative of the makespan by the costs that follow each moment, at the costs of `times`.
std::vector<double> makespan_weights(const CauseGraph& graph, const GraphTimes& times);

/// The least time that any order of a program's actions on their ranks takes in the ideal run.
struct IdealBound {
  Ns bound_ns = 0;
  Ns head_ns = 0;  ///< time before the most loaded rank can begin, summed over iterations
  Ns tail_ns = 0;  ///< time after the most loaded rank has ended, summed over iterations
};
/// Finds the bound from the data that actions need. Each iteration of a synchronous program counts by itself,
/// because its first forward pass waits for the optimizer.
IdealBound ideal_bound(const CauseGraph& graph, const FlatProgram& flat, const Program& program,
                       const GraphCosts& costs);

/// For each node of a compute group the nodes whose data it needs, as lists.
struct DataInputs {
  std::vector<std::uint32_t> first;  ///< the inputs of node n are nodes[first[n]] to nodes[first[n + 1] - 1]
  std::vector<CauseNode> nodes;
};
/// Returns the compute groups that produce what each compute group reads: activations, gradients, and what an
/// earlier action of the same microbatch and stage has left on the rank.
DataInputs data_inputs(const CauseGraph& graph, const FlatProgram& flat, const Program& program);

}  // namespace penstock
