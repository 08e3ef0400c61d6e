// Cuts lists and edges into buckets. In this example, stage 0 has three buckets and stage 1 has two (a =
// REDUCE_GRAD):
//
//   stages      0     1        0F 0B 0a   ->   0F 1F 2F  2B 2a 1B 1a 0B 0a
//   new stages  0 1 2 3 4
//
// Backwards, reductions and STEPs go from the last bucket to the first. buckets.cpp checks whether a program
// can be cut. Tested by buckets_test.cpp.

#include "schedules/passes/bucket_places.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {
namespace {

/// Returns true for kinds that go from the last bucket to the first. The backward pass begins at the end of
/// the model, so the last bucket has its gradients first.
bool runs_back(ActionKind kind) {
  return is_backward(kind) || kind == ActionKind::reduce_grad || kind == ActionKind::step;
}

/// Appends the action for each bucket. If `behind` is given, appends it after each of these actions.
void add(std::vector<Action>& list, Action action, const BucketPlaces& buckets,
         const std::optional<Action>& behind = {}) {
  const std::int32_t first = buckets.first(action.stage);
  const std::int32_t last = buckets.last(action.stage);
  for (std::int32_t i = 0; i <= last - first; ++i) {
    // In the backward pass the last bucket comes first, so that its gradients are reduced while other buckets
    // compute.
    action.stage = runs_back(action.kind) ? last - i : first + i;
    list.push_back(action);
    if (!behind) continue;
    list.push_back(*behind);
    list.back().stage = action.stage;
  }
}

}  // namespace

std::vector<Action> split_list(const std::vector<Action>& list, const BucketPlaces& buckets, Reduction when) {
  std::vector<Action> result;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Action reduction{.kind = ActionKind::reduce_grad, .stage = list[i].stage};
    // An overlapped reduction starts directly after the backward of its bucket, while the next bucket
    // computes. A REDUCE_GRAD at another position is repeated for each bucket there.
    const bool reduces_at_once = when == Reduction::overlapped && makes_weight_gradient(list[i].kind) &&
                                 i + 1 < list.size() && list[i + 1] == reduction;
    if (reduces_at_once) {
      add(result, list[i++], buckets, reduction);
    } else {
      add(result, list[i], buckets);
    }
  }
  return result;
}

std::vector<StageEdge> split_edges(const Program& program, const BucketPlaces& buckets) {
  // The buckets of a chain also form a chain.
  if (program.edges.empty()) return {};
  std::vector<StageEdge> edges;
  edges.reserve(program.edges.size() + static_cast<std::size_t>(buckets.total()));
  // A stage sends from its last bucket to the first bucket of the next stage.
  for (const StageEdge& edge : program.edges)
    edges.push_back({.from = buckets.last(edge.from), .to = buckets.first(edge.to)});
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    for (std::int32_t bucket = buckets.first(stage); bucket < buckets.last(stage); ++bucket)
      edges.push_back({.from = bucket, .to = bucket + 1});
  }
  std::ranges::sort(edges);
  return edges;
}

}  // namespace penstock
