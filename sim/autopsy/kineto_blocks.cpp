// Finds forward and backward passes in traces that have no ranges for actions. Torch's Schedule1F1B and
// ScheduleGPipe write such traces:
//
//   recv | operators ... | send | recv | evaluate_function ... | send
//          forward                       backward
//
// Operators between two communications are one block, unless the kind changes. A backward pass belongs to the
// forward pass with which its operators share sequence numbers. Other blocks, such as those of an optimizer,
// share none and are left out. Tests: tests/sim/traces_test.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "sim/autopsy/events_csv.hpp"
#include "sim/autopsy/kineto.hpp"
#include "sim/autopsy/kineto_events.hpp"

namespace penstock {
namespace {

/// Sets the times of each block to those of its kernels, from the first to the last computing kernel. Does
/// nothing unless most blocks launched such kernels.
void take_kernels(std::vector<TraceBlock>& blocks, const TraceEvents& events) {
  std::map<std::int64_t, Ns> launched_at;
  for (const TraceEvent& launch : events.launches) launched_at.emplace(launch.correlation, launch.start_ns);
  std::vector<std::pair<Ns, Ns>> spans(blocks.size(),
                                       {std::numeric_limits<Ns>::max(), std::numeric_limits<Ns>::min()});
  std::size_t found = 0;
  for (const TraceEvent& kernel : events.kernels) {
    const auto launch = launched_at.find(kernel.correlation);
    if (kernel.communicates || launch == launched_at.end()) continue;
    const auto behind = std::ranges::upper_bound(blocks, launch->second, {}, &TraceBlock::start_ns);
    if (behind == blocks.begin() || (behind - 1)->end_ns < launch->second) continue;
    auto& [start, end] = spans[static_cast<std::size_t>(behind - blocks.begin()) - 1];
    if (end < start) ++found;
    start = std::min(start, kernel.start_ns);
    end = std::max(end, kernel.end_ns);
  }
  if (2 * found <= blocks.size()) return;
  std::vector<TraceBlock> on_gpu;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (spans[i].second < spans[i].first) continue;
    blocks[i].start_ns = spans[i].first;
    blocks[i].end_ns = spans[i].second;
    on_gpu.push_back(std::move(blocks[i]));
  }
  blocks = std::move(on_gpu);
}

/// The passes of one rank in the order of their starts. Each pass has the number of its forward pass.
struct RankPasses {
  struct Pass {
    bool is_backward = false;
    std::size_t forward = 0;
    Ns start_ns = 0;
    Ns end_ns = 0;
  };
  std::vector<Pass> passes;
  std::size_t first_drain = 0;  // forward passes until all of them have had their backward pass
};

RankPasses passes_of_blocks(const std::vector<TraceBlock>& blocks) {
  std::map<std::int64_t, std::size_t> forward_of;  // by sequence number: the block
  std::vector<std::optional<std::size_t>> partner(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::map<std::size_t, int> votes;
    for (const std::int64_t number : blocks[i].sequence_numbers) {
      if (!blocks[i].is_backward) {
        forward_of[number] = i;
      } else if (const auto found = forward_of.find(number); found != forward_of.end()) {
        ++votes[found->second];
      }
    }
    const auto most = std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; });
    if (most == votes.end()) continue;
    partner[i] = most->first;
    partner[most->first] = i;
  }
  RankPasses rank;
  std::map<std::size_t, std::size_t> number_of;  // by block of a forward pass
  std::size_t open = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (!partner[i]) continue;
    if (!blocks[i].is_backward) {
      number_of.emplace(i, number_of.size());
      ++open;
    } else {
      --open;
      if (open == 0 && rank.first_drain == 0) rank.first_drain = number_of.size();
    }
    rank.passes.push_back({.is_backward = blocks[i].is_backward,
                           .forward = number_of[blocks[i].is_backward ? *partner[i] : i],
                           .start_ns = blocks[i].start_ns,
                           .end_ns = blocks[i].end_ns});
  }
  return rank;
}

}  // namespace

void move_times(TraceEvents& events, Ns by_ns) {
  if (by_ns == 0) return;
  const auto move = [&](TraceEvent& event) {
    event.start_ns += by_ns;
    event.end_ns += by_ns;
  };
  for (ActionRange& range : events.ranges) move(range.event);
  for (auto& [event, number] : events.steps) move(event);
  for (auto* list : {&events.operators, &events.launches, &events.kernels})
    std::ranges::for_each(*list, move);
}

std::vector<TraceBlock> blocks_of(TraceEvents& events) {
  std::ranges::stable_sort(events.operators, [](const TraceEvent& a, const TraceEvent& b) {
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
  });
  std::vector<TraceBlock> blocks;
  bool is_open = false;
  Ns covered_until = std::numeric_limits<Ns>::min();
  for (const TraceEvent& one : events.operators) {
    if (one.communicates) {
      is_open = false;
      continue;
    }
    // An operator inside another operator belongs to the block of the outer one. It only adds its sequence
    // number.
    const bool is_inner = one.end_ns <= covered_until;
    const bool continues = is_open && (is_inner || one.is_backward == blocks.back().is_backward);
    if (!continues) blocks.push_back({.is_backward = one.is_backward, .start_ns = one.start_ns});
    is_open = true;
    blocks.back().end_ns = std::max(blocks.back().end_ns, one.end_ns);
    covered_until = std::max(covered_until, one.end_ns);
    if (one.sequence >= 0) blocks.back().sequence_numbers.push_back(one.sequence);
  }
  take_kernels(blocks, events);
  return blocks;
}

tl::expected<RecordedRows, std::string> joined_traces(std::vector<RankTrace> traces) {
  RecordedRows joined;
  std::vector<std::pair<std::int64_t, RankPasses>> ranks;
  for (RankTrace& trace : traces) {
    joined.rows.insert(joined.rows.end(), trace.rows.begin(), trace.rows.end());
    if (trace.rows.empty()) ranks.emplace_back(trace.rank, passes_of_blocks(trace.blocks));
  }
  if (ranks.empty()) return joined;
  if (!joined.rows.empty()) {
    return tl::unexpected(fmt::format(
        "expected ranges of actions (PP:0F0) in the traces of all ranks or of none, got none of rank {}",
        ranks.front().first));
  }
  // The first stage has all its forward passes before its last backward pass, so it drains once in each step.
  // The number of its forward passes until then is the number of microbatches.
  std::size_t microbatches = 0;
  for (const auto& [rank, passes] : ranks) microbatches = std::max(microbatches, passes.first_drain);
  if (microbatches == 0) {
    return tl::unexpected(
        std::string("expected forward and backward passes, or ranges such as PP:0F0, got none"));
  }
  std::ranges::sort(ranks, {}, [](const auto& one) { return one.first; });
  for (std::size_t stage = 0; stage < ranks.size(); ++stage) {
    for (const RankPasses::Pass& pass : ranks[stage].second.passes) {
      const Action action{.kind = pass.is_backward ? ActionKind::backward : ActionKind::forward,
                          .stage = static_cast<std::int32_t>(stage),
                          .microbatch = static_cast<std::int32_t>(pass.forward % microbatches)};
      joined.rows.push_back({.step = static_cast<std::int64_t>(pass.forward / microbatches),
                             .rank = ranks[stage].first,
                             .actions = {action},
                             .start_ns = pass.start_ns,
                             .end_ns = pass.end_ns});
    }
  }
  joined.notes.emplace_back(
      "the traces have no ranges of actions: passes are the operators between communication, and rank r is "
      "stage r");
  return joined;
}

}  // namespace penstock
