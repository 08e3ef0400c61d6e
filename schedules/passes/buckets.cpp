
#include "schedules/passes/buckets.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/bucket_places.hpp"

namespace penstock {
namespace {

/// Returns an error if the program cannot be cut. Overlapped groups: the buckets of a group would not
/// overlap. R: each bucket would need its own input. Gathers: they are inserted for whole stages. Messages:
/// buckets of one rank exchange none.
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
