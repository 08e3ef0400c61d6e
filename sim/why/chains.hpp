#pragma once
// Follows the binding inputs of a node backwards: what everything waited for, one thing after the other.

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

/// Returns what happened in [from_ns, start of `node`] along the node's binding inputs, in order of time. If
/// several inputs bind, it follows an action of the same rank, or else the first. `times` are the real times.
std::vector<ChainLink> chain_of(const CauseGraph& graph, const FlatProgram& flat, const GraphTimes& times,
                                CauseNode node, Ns from_ns);

/// Finds actions of a rank that had all their inputs while the rank was idle.
class ReadyActions {
 public:
  /// Keeps references to the arguments, which must outlive the object. `times` are the real times.
  ReadyActions(const CauseGraph& graph, const FlatProgram& flat, const Program& program,
               const GraphTimes& times);

  /// Returns the first compute group after part.node in the list of the rank that had all its inputs when the
  /// interval began. Optimizer steps do not count.
  std::optional<ReadyAction> behind(const IdlePart& part) const;

 private:
  /// The compute groups of one rank in list order. `least` is a binary tree of the earliest times at which an
  /// action of a range of the list is ready.
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
