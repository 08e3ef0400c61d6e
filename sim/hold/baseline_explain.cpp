// Explains why figures differ from those of a baseline. It shows the differences of the program, the first
// step at which the longest path differs, the change of each part of the path, and the change of the memory
// on the fullest rank. The changes of all parts add up to the change of the makespan. The changes of all
// memory categories add up to the change of the peak. It shows only the first differences, so that the text
// about a program of thousands of ranks stays readable.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "report/print/memory_category.hpp"
#include "report/print/units.hpp"
#include "report/timeline/spans.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/text/program_diff.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/hold/baseline.hpp"

namespace penstock {

namespace {

constexpr std::size_t kMostChanges = 3;  // largest number of changes that are shown for one rank's list
constexpr std::size_t kMostRanks = 8;
constexpr std::size_t kMostShares = 8;
constexpr std::size_t kMostSettings = 8;
constexpr std::size_t kWidest = 80;  // largest number of bytes for removed actions, and for added ones

std::string signed_duration(Ns ns) {
  return fmt::format("{}{}", ns < 0 ? "-" : "+", format_duration(ns < 0 ? -ns : ns));
}

/// Shortens the list to the first texts that fit into `kWidest` bytes, and adds a text with the number of
/// omitted ones.
void shorten(std::vector<std::string>& texts) {
  std::size_t bytes = 0;
  std::size_t kept = 0;
  while (kept < texts.size() && bytes + texts[kept].size() < kWidest) bytes += texts[kept++].size() + 1;
  kept = std::max<std::size_t>(kept, 1);
  if (kept >= texts.size()) return;
  const std::size_t more = texts.size() - kept;
  texts.resize(kept);
  texts.push_back(fmt::format("... and {} more", more));
}

/// Returns the first differences of a diff. For each change, it retains the first removed and the first added
/// actions.
ProgramDiff shortened(ProgramDiff diff) {
  if (diff.settings.size() > kMostSettings) {
    const auto more = static_cast<std::int64_t>(diff.settings.size() - kMostSettings);
    diff.settings.resize(kMostSettings);
    diff.settings.push_back(fmt::format("and {} more", format_count(more, "setting")));
  }
  diff.ranks.resize(std::min(diff.ranks.size(), kMostRanks));
  for (RankChanges& rank : diff.ranks) {
    for (ListChange& change : rank.changes) {
      shorten(change.removed);
      shorten(change.added);
    }
  }
  return diff;
}

/// Returns the program without its messages. A baseline stores lowered programs, but an invalid program is
/// stored as its author wrote it, which is often without messages.
Program without_messages(Program program) {
  for (std::vector<Action>& list : program.ranks)
    std::erase_if(list, [](const Action& action) { return is_transfer(action.kind); });
  return program;
}

/// Returns lines about the differences of the programs, rank by rank.
std::vector<std::string> program_lines(const HeldRun& then, const HeldRun& now) {
  auto before = parse_program(then.program, "the baseline's program");
  const auto after = parse_program(now.program, "today's program");
  if (!before || !after) return {before ? after.error() : before.error()};
  if (!is_lowered(*after)) before = without_messages(*std::move(before));
  const ProgramDiff diff = diff_programs(*before, *after);
  if (diff.empty()) return {"the program is the same: costs, cluster or channels have changed"};
  std::vector<std::string> lines = {"the program has changed:"};
  std::istringstream text(to_text(shortened(diff), kMostChanges));
  for (std::string line; std::getline(text, line);) lines.push_back(fmt::format("  {}", line));
  if (diff.ranks.size() > kMostRanks) {
    const auto more = static_cast<std::int64_t>(diff.ranks.size() - kMostRanks);
    lines.push_back(fmt::format("  and {} more", format_count(more, "rank")));
  }
  return lines;
}

std::string step_text(const PathStep& step) {
  return fmt::format("rank {} {} at {}", step.rank, step.action, format_duration(step.start_ns));
}

/// Returns a sentence about the first difference of the two paths. For example: "the longest path leaves the
/// old one after rank 0 0F3 at 3.000 ms: rank 1 1F3 at 4.000 ms, where it was rank 0 0B0 at 9.000 ms".
std::string parting_text(const std::vector<PathStep>& then, const std::vector<PathStep>& now,
                         std::size_t step) {
  if (step == now.size() && step == then.size())
    return fmt::format("the longest path goes the same way, in {} steps, at other times", step);
  const std::string after = step == 0 ? "at its start" : fmt::format("after {}", step_text(now[step - 1]));
  return fmt::format("the longest path leaves the old one {}: {}, where it was {}", after,
                     step < now.size() ? step_text(now[step]) : "its end",
                     step < then.size() ? step_text(then[step]) : "its end");
}

std::vector<std::string> path_lines(const std::vector<PathStep>& then, const std::vector<PathStep>& now) {
  // A program that hangs has no path.
  if (then.empty() || now.empty() || then == now) return {};
  const PathChange change = change_of(then, now);
  std::vector<std::string> lines = {parting_text(then, now, index(change.step))};
  for (std::size_t i = 0; i < std::min(change.shares.size(), kMostShares); ++i) {
    const PathShare& share = change.shares[i];
    lines.push_back(fmt::format("  {:>10}  {}: {} -> {}", signed_duration(share.after_ns - share.before_ns),
                                share.what, format_duration(share.before_ns),
                                format_duration(share.after_ns)));
  }
  if (change.shares.size() > kMostShares) {
    Ns rest = 0;
    for (std::size_t i = kMostShares; i < change.shares.size(); ++i)
      rest += change.shares[i].after_ns - change.shares[i].before_ns;
    lines.push_back(fmt::format("  {:>10}  {} smaller ones together", signed_duration(rest),
                                change.shares.size() - kMostShares));
  }
  return lines;
}

std::string moment_text(const HeldPeak& peak) {
  const std::string when = peak.action.empty() ? "from the start" : fmt::format("at {}", peak.action);
  return fmt::format("{} on rank {} {}", format_memory(total_bytes(peak.held), peak.unit), peak.rank, when);
}

/// Returns lines about the memory of the fullest rank at its peak. Returns none if this memory has not
/// changed.
std::vector<std::string> peak_lines(const std::optional<HeldPeak>& then, const std::optional<HeldPeak>& now) {
  // Older baselines have no peak, and bytes cannot be compared with activations.
  if (!then || !now || then->unit != now->unit || then->held == now->held) return {};
  std::vector<std::string> lines = {
      fmt::format("the peak of memory is {}, where it was {}", moment_text(*now), moment_text(*then))};
  for (std::size_t i = 0; i < kMemoryCategoryCount; ++i) {
    const Bytes more = now->held[i] - then->held[i];
    if (more == 0) continue;
    const std::string amount = format_memory(more < 0 ? -more : more, now->unit);
    lines.push_back(fmt::format("  {:>10}  {}: {} -> {}", fmt::format("{}{}", more < 0 ? "-" : "+", amount),
                                to_text(static_cast<MemoryCategory>(i)),
                                format_memory(then->held[i], then->unit),
                                format_memory(now->held[i], now->unit)));
  }
  return lines;
}

}  // namespace

std::vector<std::string> explanation_of(const HeldRun& then, const HeldRun& now) {
  std::vector<std::string> lines = program_lines(then, now);
  const std::vector<std::string> path = path_lines(then.path, now.path);
  lines.insert(lines.end(), path.begin(), path.end());
  const std::vector<std::string> peak = peak_lines(then.peak, now.peak);
  lines.insert(lines.end(), peak.begin(), peak.end());
  return lines;
}

// Finds the longest path backwards, from the compute action that ends last. An action starts when its rank is
// free and all its inputs have arrived. The path continues with the action that caused the later of these two
// events:
//
//     rank 0   F0 F1 F2            the action before it on its rank, or
//                \                 the producer, on another rank, of the RECV that arrived last, or
//                                  the member of a collective that came to it last
//     rank 1      F0 F1 B0
//
// The time between two steps on different ranks is that of a transfer, including the wait for its channel.
// The time between two steps on one rank is a wait for a barrier or a blocking channel. Tests:
// tests/sim/baseline_explained_test.cpp.

namespace {

/// A compute action, identified by its rank and its position in that rank's spans.
struct Place {
  std::int32_t rank = 0;
  std::size_t position = 0;
};

class PathFinder {
 public:
  PathFinder(const Timeline& timeline, const Program& program)
      : ranks_(spans_by_rank(timeline)), recompute_(program.recompute), before_(ranks_.size()) {
    for (std::int32_t rank = 0; rank < timeline.rank_count; ++rank) look_at(rank);
  }

  std::vector<PathStep> path() const {
    std::vector<PathStep> steps;
    for (std::optional<Place> at = last(); at; at = cause_of(*at)) {
      const Span& span = span_at(*at);
      steps.push_back({span.rank, to_text(span.action), span.start_ns, span.end_ns});
    }
    std::ranges::reverse(steps);
    return steps;
  }

 private:
  /// The two causes for which a compute action may have waited: the action before it on its rank, and an
  /// input.
  struct Causes {
    std::optional<Place> on_rank;
    const Span* arrived = nullptr;  // the awaited RECV or collective that ended last
  };
  // Identifies an output: true for a gradient, the stage, and the microbatch.
  using Product = std::tuple<bool, std::int32_t, std::int32_t>;
  /// Identifies a collective by its kind, its stage, and the number of such collectives before it. A start
  /// time would not identify it, because collectives that take no time may follow each other at one instant.
  /// If they were confused, the path could alternate between their members for ever.
  using Meeting = std::tuple<ActionKind, std::int32_t, std::int32_t>;

  void look_at(std::int32_t rank) {
    const Spans spans = ranks_[index(rank)];
    Arrivals arrivals(recompute_);
    std::optional<Place> previous;
    std::map<std::pair<ActionKind, std::int32_t>, std::int32_t> joined;  // key: kind and stage
    before_[index(rank)].resize(spans.size());
    for (std::size_t i = 0; i < spans.size(); ++i) {
      arrivals.add(spans[i]);
      if (is_collective(spans[i].action.kind)) {
        const ActionKind kind = spans[i].action.kind;
        const std::int32_t stage = spans[i].action.stage;
        note_member(spans[i], {kind, stage, joined[{kind, stage}]++}, previous);
      }
      if (!is_compute(spans[i].action.kind)) continue;
      // The actions of a group start and end together, so the outputs of all of them are recorded for the
      // first action.
      const std::size_t first = opens_compute(spans, i) || !previous ? i : previous->position;
      note_product(spans[i].action, {rank, first});
      if (first != i) continue;
      Causes& causes = before_[index(rank)][i];
      causes.on_rank = previous;
      for (const Span* waited : arrivals.of_group(spans, i)) {
        // A message that arrived after the start of the action did not delay it.
        if (waited->end_ns <= spans[i].start_ns &&
            (causes.arrived == nullptr || waited->end_ns > causes.arrived->end_ns))
          causes.arrived = waited;
      }
      previous = Place{rank, i};
    }
  }

  void note_product(const Action& action, const Place& place) {
    if (action.kind == ActionKind::forward) producers_[{false, action.stage, action.microbatch}] = place;
    if (makes_input_gradient(action.kind)) producers_[{true, action.stage, action.microbatch}] = place;
  }

  /// Records the member of a collective whose previous compute action ended last, because all other members
  /// waited for it. A member without a previous action delays no other member.
  void note_member(const Span& span, const Meeting& meeting, const std::optional<Place>& before) {
    meeting_of_[&span] = meeting;
    if (!before) return;
    const auto [member, is_new] = last_members_.try_emplace(meeting, *before);
    if (!is_new && span_at(member->second).end_ns < span_at(*before).end_ns) member->second = *before;
  }

  std::optional<Place> sender_of(const Span& arrived) const {
    const Action& action = arrived.action;
    if (is_collective(action.kind)) {
      const auto member = last_members_.find(meeting_of_.at(&arrived));
      return member == last_members_.end() ? std::nullopt : std::optional(member->second);
    }
    const auto producer =
        producers_.find({action.kind == ActionKind::recv_backward, action.peer, action.microbatch});
    return producer == producers_.end() ? std::nullopt : std::optional(producer->second);
  }

  std::optional<Place> cause_of(const Place& place) const {
    const Causes& causes = before_[index(place.rank)][place.position];
    const Ns free_ns = causes.on_rank ? span_at(*causes.on_rank).end_ns : 0;
    // If both ended at the same time, the action on the same rank is the cause.
    if (causes.arrived == nullptr || causes.arrived->end_ns <= free_ns) return causes.on_rank;
    const std::optional<Place> sender = sender_of(*causes.arrived);
    return sender ? sender : causes.on_rank;
  }

  /// Returns the compute action that ends last. If several end at the same time, returns the first one of the
  /// lowest rank.
  std::optional<Place> last() const {
    std::optional<Place> last;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (std::size_t i = 0; i < ranks_[rank].size(); ++i) {
        if (!opens_compute(ranks_[rank], i)) continue;
        if (!last || ranks_[rank][i].end_ns > span_at(*last).end_ns)
          last = Place{static_cast<std::int32_t>(rank), i};
      }
    }
    return last;
  }

  const Span& span_at(const Place& place) const { return ranks_[index(place.rank)][place.position]; }

  std::vector<Spans> ranks_;
  RecomputeTiming recompute_;
  std::vector<std::vector<Causes>> before_;  // index: rank, then position; filled for compute actions
  std::map<Product, Place> producers_;
  std::map<Meeting, Place> last_members_;
  std::unordered_map<const Span*, Meeting> meeting_of_;  // key: the span of one member in a collective
};

/// Returns the kind in an action's text: "B" for "1B3".
std::string kind_in(std::string_view action) {
  const std::size_t begin = action.find_first_not_of("0123456789");
  if (begin == std::string_view::npos) return std::string(action);
  return std::string(action.substr(begin, action.find_first_of("0123456789", begin) - begin));
}

/// Returns the durations of the parts of a path. They add up to the time of the path. A part is the actions
/// of one kind on one rank, or the waits on one rank or from one rank to another.
std::map<std::string, Ns> shares_of(const std::vector<PathStep>& path) {
  std::map<std::string, Ns> shares;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const PathStep& step = path[i];
    shares[fmt::format("rank {} {}", step.rank, kind_in(step.action))] += step.end_ns - step.start_ns;
    const Ns since = i == 0 ? 0 : path[i - 1].end_ns;
    if (step.start_ns == since) continue;
    // The time before the first step is a wait on the rank of this step.
    const bool on_one_rank = i == 0 || path[i - 1].rank == step.rank;
    shares[on_one_rank ? fmt::format("waits on rank {}", step.rank)
                       : fmt::format("from rank {} to rank {}", path[i - 1].rank, step.rank)] +=
        step.start_ns - since;
  }
  return shares;
}

}  // namespace

std::vector<PathStep> longest_path(const Timeline& timeline, const Program& program) {
  return PathFinder(timeline, program).path();
}

std::string to_text(const PathStep& step) {
  return fmt::format("{} {} {} {}", step.rank, step.action, step.start_ns, step.end_ns);
}

tl::expected<PathStep, std::string> path_step_of_text(const std::string& text) {
  std::istringstream words(text);
  PathStep step;
  std::string rest;
  const bool read = static_cast<bool>(words >> step.rank >> step.action >> step.start_ns >> step.end_ns);
  if (read && !(words >> rest) && step.rank >= 0 && step.start_ns >= 0 && step.end_ns >= step.start_ns)
    return step;
  return tl::unexpected(std::string("a rank, an action, its start and its end, such as \"0 1F3 1000 2000\""));
}

PathChange change_of(const std::vector<PathStep>& before, const std::vector<PathStep>& after) {
  PathChange change;
  const auto same_step = [](const PathStep& a, const PathStep& b) {
    return a.rank == b.rank && a.action == b.action;
  };
  const auto parted = std::ranges::mismatch(before, after, same_step);
  // Steps with the same rank and action count as equal, even if their times differ.
  change.step = static_cast<std::int32_t>(parted.in1 - before.begin());
  std::map<std::string, PathShare> shares;
  for (const auto& [what, ns] : shares_of(before)) shares[what] = {what, ns, 0};
  for (const auto& [what, ns] : shares_of(after)) {
    shares[what].what = what;
    shares[what].after_ns = ns;
  }
  for (auto& [what, share] : shares) {
    if (share.before_ns != share.after_ns) change.shares.push_back(std::move(share));
  }
  std::ranges::stable_sort(change.shares, std::ranges::greater{},
                           [](const PathShare& share) { return std::abs(share.after_ns - share.before_ns); });
  return change;
}

}  // namespace penstock
