// Combines a pipeline with data parallelism: each rank becomes several ranks, one for each copy of the
// pipeline. This is GPipe on two ranks with two copies and four microbatches (a = REDUCE_GRAD, s = STEP):
//
//   pipeline           rank 0  0F0 0F1 0B0 0B1 0s        rank 1  1F0 1F1 1B0 1B1 1s
//
//   copy 0             rank 0  0F0 0F2 0B0 0B2 0a 0s     rank 2  1F0 1F2 1B0 1B2 1a 1s
//   copy 1             rank 1  0F1 0F3 0B1 0B3 0a 0s     rank 3  1F1 1F3 1B1 1B3 1a 1s
//
// rules/generators.cpp applies this pass to every schedule. Tested by pipeline_replicas_test.cpp.

#include "schedules/passes/passes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

namespace {

/// Returns the stages that have a REDUCE_GRAD in any list.
std::set<std::int32_t> reduced_stages(const Program& program) {
  std::set<std::int32_t> stages;
  for (const std::vector<Action>& actions : program.ranks) {
    for (const Action& action : actions) {
      if (action.kind == ActionKind::reduce_grad) stages.insert(action.stage);
    }
  }
  return stages;
}

/// Returns the REDUCE_GRADs to insert into one rank's list. A key is the position before which a
/// REDUCE_GRAD is inserted, and the value is its stage. Stages that already have a REDUCE_GRAD are left
/// out.
std::multimap<std::size_t, std::int32_t> reductions(const std::vector<Action>& actions,
                                                    const std::set<std::int32_t>& reduced,
                                                    Reduction reduction) {
  std::multimap<std::size_t, std::int32_t> before;
  std::map<std::int32_t, std::size_t>
      last_backward;                   // position of the last backward since the stage's last STEP, by stage
  std::size_t steps = actions.size();  // the position of the first of the consecutive STEPs
  for (std::size_t position = 0; position < actions.size(); ++position) {
    const Action& action = actions[position];
    if (makes_weight_gradient(action.kind)) last_backward[action.stage] = position;
    if (action.kind != ActionKind::step) continue;
    if (position == 0 || actions[position - 1].kind != ActionKind::step) steps = position;
    const auto last = last_backward.find(action.stage);
    if (last == last_backward.end() || reduced.contains(action.stage)) continue;
    // An overlapped reduction comes directly after the last backward of the stage. Another reduction comes
    // before all consecutive STEPs. The rank then starts all its reductions before its first STEP waits for
    // one of them.
    before.emplace(reduction == Reduction::overlapped ? group_end(actions, last->second) : steps,
                   action.stage);
    last_backward.erase(last);
  }
  return before;
}

/// Inserts REDUCE_GRADs into one rank's list and returns the new list. `before` maps positions to stages,
/// as reductions() returns them. REDUCE_GRADs at the same position are in the order of their STEPs.
std::vector<Action> with_reductions(const std::vector<Action>& actions,
                                    const std::multimap<std::size_t, std::int32_t>& before) {
  std::vector<Action> list;
  list.reserve(actions.size() + before.size());
  for (std::size_t position = 0; position < actions.size(); ++position) {
    const auto [first, last] = before.equal_range(position);
    for (auto entry = first; entry != last; ++entry) {
      list.push_back(whole_stage(ActionKind::reduce_grad, entry->second));
    }
    list.push_back(actions[position]);
  }
  return list;
}

/// Returns the number that the unit `unit` of the copy `copy` gets among the units of all copies. A unit is
/// a microbatch, or a slice if microbatches are cut into slices. Microbatches go to the copies in turn, and
/// the slices of a microbatch keep consecutive numbers.
std::int32_t shared_unit(std::int32_t unit, std::int32_t copy, std::int32_t copies, std::int32_t slices) {
  return (unit / slices * copies + copy) * slices + unit % slices;
}

StagePlacement replicated(const StagePlacement& stage, std::int32_t copies, std::int32_t slices) {
  StagePlacement all{.ranks = {}, .route = {}, .passes = stage.passes};
  for (const std::int32_t rank : stage.ranks) {
    // The copies of a rank are adjacent: rank r becomes the ranks from r x copies on.
    for (std::int32_t copy = 0; copy < copies; ++copy) all.ranks.push_back(rank * copies + copy);
  }
  // The route of all copies repeats after `period` units of each copy. `period` is a multiple of the number
  // of slices and of the length of the pipeline's own route.
  const auto own = static_cast<std::int32_t>(stage.route.size());
  const std::int32_t period = std::lcm(own, slices);
  all.route.resize(index(std::int64_t{period} * copies));
  for (std::int32_t unit = 0; unit < period; ++unit) {
    for (std::int32_t copy = 0; copy < copies; ++copy) {
      all.route[index(shared_unit(unit, copy, copies, slices))] =
          stage.route[index(unit % own)] * copies + copy;
    }
  }
  return all;
}

}  // namespace

Program replicate_pipeline(const Program& pipeline, const PipelineReplicas& replicas) {
  Program all = pipeline;
  all.microbatches *= replicas.count;
  for (StagePlacement& stage : all.placement.stages) {
    stage = replicated(stage, replicas.count, pipeline.slices);
  }
  const std::set<std::int32_t> reduced = reduced_stages(pipeline);
  all.ranks.clear();
  for (std::vector<Action> list : pipeline.ranks) {
    if (replicas.sync == ReplicaSync::on && replicas.count > 1) {
      list = with_reductions(list, reductions(list, reduced, replicas.reduction));
    }
    for (std::int32_t copy = 0; copy < replicas.count; ++copy) {
      std::vector<Action> mine = list;
      for (Action& action : mine) {
        if (!has_microbatch(action.kind)) continue;
        action.microbatch = shared_unit(action.microbatch, copy, replicas.count, pipeline.slices);
      }
      all.ranks.push_back(std::move(mine));
    }
  }
  return all;
}

// Gives numbers to the buckets, which become new stages.

/// The first and last bucket of each stage. The buckets become stages of the new program, and these are
/// their new stage numbers.
class BucketPlaces {
 public:
  explicit BucketPlaces(const std::vector<std::int32_t>& counts) {
    for (const std::int32_t count : counts) begin_.push_back(begin_.back() + count);
  }

  std::int32_t first(std::int32_t stage) const { return begin_[static_cast<std::size_t>(stage)]; }
  std::int32_t last(std::int32_t stage) const { return first(stage + 1) - 1; }
  std::int32_t total() const { return begin_.back(); }

 private:
  std::vector<std::int32_t> begin_{0};
};

/// Returns a rank's list in which each action is replaced by the actions of all buckets of its stage.
std::vector<Action> split_list(const std::vector<Action>& list, const BucketPlaces& buckets, Reduction when);

/// Returns the edges between buckets, or none if the program states no edges. Such a program is a chain,
/// and cut into buckets it is also a chain.
std::vector<StageEdge> split_edges(const Program& program, const BucketPlaces& buckets);

// Cuts lists and edges into buckets. In this example, stage 0 has three buckets and stage 1 has two (a =
// REDUCE_GRAD):
//
//   stages      0     1        0F 0B 0a   ->   0F 1F 2F  2B 2a 1B 1a 0B 0a
//   new stages  0 1 2 3 4
//
// Backwards, reductions and STEPs go from the last bucket to the first. split_into_buckets() checks whether a
// program can be cut. Tests: tests/schedules/pipeline_replicas_test.cpp.

namespace {

/// Returns true for action kinds that run from a stage's last bucket to its first. The backward pass begins
/// at the end of the model, so the last bucket has its gradients first.
bool runs_back(ActionKind kind) {
  return is_backward(kind) || kind == ActionKind::reduce_grad || kind == ActionKind::step;
}

/// Appends `action` once for each bucket of its stage. If `behind` is given, appends `behind` after each of
/// these actions.
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
    // computes. A REDUCE_GRAD that is not directly after a backward is repeated for each bucket at its
    // position.
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
    edges.push_back({.from = buckets.last(edge.from), .to = buckets.first(edge.to), .flows = edge.flows});
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    for (std::int32_t bucket = buckets.first(stage); bucket < buckets.last(stage); ++bucket)
      edges.push_back({.from = bucket, .to = bucket + 1});
  }
  std::ranges::sort(edges);
  return edges;
}

namespace {

/// Returns an error if the stages of the program cannot be cut into buckets. Overlapped groups cannot be
/// cut, because their buckets would not overlap. Recomputations (R) cannot be cut, because each bucket
/// would need its own input. UNSHARDs must be inserted later, for whole stages. Messages cannot be cut,
/// because the buckets of one rank exchange none.
tl::expected<void, std::string> check_can_be_cut(const Program& program) {
  for (const std::vector<Action>& list : program.ranks) {
    for (const Action& action : list) {
      if (action.overlaps_next || gathers_or_drops(action.kind) || action.kind == ActionKind::recompute ||
          is_transfer(action.kind)) {
        return tl::unexpected(fmt::format(
            "buckets: {} on a rank's list cannot be cut into buckets; they do not go with overlapped pairs, "
            "recomputation, programs that gather their weights, or ones that send already",
            to_text(action)));
      }
    }
  }
  return {};
}

tl::expected<std::vector<std::int32_t>, std::string> counts_of(const Program& program,
                                                               const std::vector<std::int32_t>& buckets) {
  const auto stages = static_cast<std::size_t>(program.stage_count());
  const bool one_for_all = buckets.size() == 1;
  if ((!one_for_all && buckets.size() != stages) || std::ranges::min(buckets) < 1) {
    return tl::unexpected(
        fmt::format("buckets: expected one number of at least 1, or {}, one for each stage of the schedule, "
                    "got {} numbers",
                    stages, buckets.size()));
  }
  return one_for_all ? std::vector<std::int32_t>(stages, buckets.front()) : buckets;
}

}  // namespace

tl::expected<Program, std::string> split_into_buckets(const Program& program, const BucketOptions& options) {
  if (options.counts.empty()) return program;
  const auto counts = counts_of(program, options.counts);
  if (!counts) return tl::unexpected(counts.error());
  if (std::ranges::max(*counts) == 1) return program;
  if (auto checked = check_can_be_cut(program); !checked) return tl::unexpected(checked.error());
  const BucketPlaces places(*counts);
  Program result = program;
  result.edges = split_edges(program, places);
  result.placement.stages.clear();
  for (std::size_t stage = 0; stage < counts->size(); ++stage) {
    for (std::int32_t bucket = 0; bucket < (*counts)[stage]; ++bucket)
      result.placement.stages.push_back(program.placement.stages[stage]);
  }
  for (std::vector<Action>& list : result.ranks) list = split_list(list, places, options.reduction);
  return result;
}

}  // namespace penstock
