// Two ranks share stage 0, which has three buckets (a = REDUCE_GRAD, s = STEP):
//
//   0F 0B 0a 0s   ->   0F 1F 2F  2B 2a 1B 1a 0B 0a  2s 1s 0s

#include "schedules/passes/buckets.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {
namespace {

using List = std::vector<Action>;

/// Whether a stage's buckets run from the last one to the first.
bool runs_back(ActionKind kind) {
  return is_backward(kind) || kind == ActionKind::reduce_grad || kind == ActionKind::step;
}

/// Where the buckets of each stage begin among the new stages, and where the last one's end.
class Buckets {
 public:
  explicit Buckets(const std::vector<std::int32_t>& counts) {
    for (const std::int32_t count : counts) begin_.push_back(begin_.back() + count);
  }

  std::int32_t first(std::int32_t stage) const { return begin_[static_cast<std::size_t>(stage)]; }
  std::int32_t last(std::int32_t stage) const { return first(stage + 1) - 1; }
  std::int32_t total() const { return begin_.back(); }

 private:
  std::vector<std::int32_t> begin_{0};
};

/// The action of each bucket in turn, each with `behind` after it where there is one.
void add(List& list, Action action, const Buckets& buckets, const std::optional<Action>& behind = {}) {
  const std::int32_t first = buckets.first(action.stage);
  const std::int32_t last = buckets.last(action.stage);
  for (std::int32_t i = 0; i <= last - first; ++i) {
    // Backwards the last bucket comes first: its gradients are there, and on their way, while the others
    // compute.
    action.stage = runs_back(action.kind) ? last - i : first + i;
    list.push_back(action);
    if (!behind) continue;
    list.push_back(*behind);
    list.back().stage = action.stage;
  }
}

List split(const List& list, const Buckets& buckets, Reduction when) {
  List result;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Action reduction{.kind = ActionKind::reduce_grad, .stage = list[i].stage};
    // Overlapped, a bucket's reduction starts right behind its backward, while the next bucket computes.
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

std::vector<StageEdge> split_edges(const Program& program, const Buckets& buckets) {
  // A chain stays a chain.
  if (program.edges.empty()) return {};
  std::vector<StageEdge> edges;
  edges.reserve(program.edges.size() + static_cast<std::size_t>(buckets.total()));
  // What a stage gives comes out of its last bucket and goes into the next stage's first one.
  for (const StageEdge& edge : program.edges)
    edges.push_back({.from = buckets.last(edge.from), .to = buckets.first(edge.to)});
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    for (std::int32_t bucket = buckets.first(stage); bucket < buckets.last(stage); ++bucket)
      edges.push_back({.from = bucket, .to = bucket + 1});
  }
  std::ranges::sort(edges);
  return edges;
}

tl::expected<void, std::string> check_reductions(const Program& program) {
  for (const List& list : program.ranks) {
    for (const Action& action : list) {
      const bool gathers = action.kind == ActionKind::unshard || action.kind == ActionKind::reshard;
      if (action.overlaps_next || gathers || action.kind == ActionKind::recompute ||
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
  if (auto checked = check_reductions(program); !checked) return tl::unexpected(checked.error());
  const Buckets places(*counts);
  Program result = program;
  result.edges = split_edges(program, places);
  result.placement.stages.clear();
  for (std::size_t stage = 0; stage < counts->size(); ++stage) {
    for (std::int32_t bucket = 0; bucket < (*counts)[stage]; ++bucket)
      result.placement.stages.push_back(program.placement.stages[stage]);
  }
  for (List& list : result.ranks) list = split(list, places, options.reduction);
  return result;
}

}  // namespace penstock
