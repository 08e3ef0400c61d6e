#pragma once
// Walks backwards through the graph of causes from a node, always to the latest input. The result is a chain
// of events, in which each event waited for the one before it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/why/explanation.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "sim/why/account.hpp"
#include "sim/why/cause_graph.hpp"

namespace penstock {

/// Returns the text of a compute group, such as "1F3" or "0F5;3B2".
std::string group_text(const FlatProgram& flat, std::int32_t position);

/// Returns the chain of events that `node` waited for, from `from_ns` to the start of `node`, in order of
/// time. The chain follows the binding input of each node. If several inputs bind, it follows an action of
/// the same rank, or else the first input. `times` are the times of the real run.
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
  std::vector<std::size_t> place_of_;  // by node: the place in its rank's list
};

}  // namespace penstock
