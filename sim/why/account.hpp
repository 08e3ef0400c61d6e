#pragma once
// Divides the idle time of a run among its causes. The parts of each idle interval add up to its length,
// to the nanosecond.

#include <cstdint>
#include <vector>

#include "report/why/explanation.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "sim/why/cause_graph.hpp"

namespace penstock {

/// An interval of idle time of a rank, which ends before the action of a node.
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

/// Divides the idle time of a run among its causes. The binding inputs of each node are found at several
/// points between the ideal run and the real run. `samples` is the number of these points.
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

}  // namespace penstock
