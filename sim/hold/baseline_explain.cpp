// Explains which figures got worse, compared with a baseline. It shows the changes of the program, the bill,
// the longest path, and the memory of the fullest rank. The bill divides the makespan by cause, so the
// changes of its lines add up to the change of the makespan. The changes of all memory categories add up to
// the change of the peak. Only the first differences are shown, so that the text stays readable for thousands
// of ranks. Tests: tests/sim/baseline_explained_test.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "report/print/memory_category.hpp"
#include "report/print/units.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/hold/baseline.hpp"

namespace penstock {

namespace {

constexpr std::size_t kMostChanges = 3;  // largest number of changes that are shown for one rank's list
constexpr std::size_t kMostRanks = 8;
constexpr std::size_t kMostSettings = 8;
constexpr std::size_t kWidest = 80;  // largest number of bytes for removed actions, and for added ones

/// Shortens the list to the first texts that fit into `kWidest` bytes, and adds the number of texts that were
/// left out.
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

/// Returns the program without its messages. A baseline stores a valid program with its messages. It stores
/// an invalid program as its author wrote it, which is often without messages. Both can be compared only
/// without messages.
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

/// Returns a sentence about the first step at which the two longest paths differ. For example: "the longest
/// path leaves the old one after rank 0 0F3 at 3.000 ms: rank 1 1F3 at 4.000 ms, where it was rank 0 0B0 at
/// 9.000 ms".
std::string parting_text(const std::vector<PathStep>& then, const std::vector<PathStep>& now,
                         std::size_t step) {
  if (step == now.size() && step == then.size())
    return fmt::format("the longest path goes the same way, in {} steps, at other times", step);
  const std::string after = step == 0 ? "at its start" : fmt::format("after {}", step_text(now[step - 1]));
  return fmt::format("the longest path leaves the old one {}: {}, where it was {}", after,
                     step < now.size() ? step_text(now[step]) : "its end",
                     step < then.size() ? step_text(then[step]) : "its end");
}

std::vector<std::string> path_lines(const HeldRun& then, const HeldRun& now) {
  std::vector<std::string> lines;
  if (then.bill && now.bill && *then.bill != *now.bill) lines = change_lines(*then.bill, *now.bill);
  // A path is empty if its program hangs. If both paths are equal, there is no difference to show.
  if (then.path.empty() || now.path.empty() || then.path == now.path) return lines;
  lines.push_back(parting_text(then.path, now.path, parting_step(then.path, now.path)));
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
  std::vector<std::string> lines;
  if (!then.program.empty() && !now.program.empty()) lines = program_lines(then, now);
  const std::vector<std::string> path = path_lines(then, now);
  lines.insert(lines.end(), path.begin(), path.end());
  const std::vector<std::string> peak = peak_lines(then.peak, now.peak);
  lines.insert(lines.end(), peak.begin(), peak.end());
  return lines;
}

std::vector<PathStep> longest_path(const Explanation& explanation) {
  std::vector<PathStep> path;
  for (const ChainLink& link : explanation.critical_path) {
    if (link.what == ChainKind::compute) path.push_back({link.rank, link.name, link.from_ns, link.to_ns});
  }
  return path;
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

std::size_t parting_step(const std::vector<PathStep>& before, const std::vector<PathStep>& after) {
  const auto same_step = [](const PathStep& a, const PathStep& b) {
    return a.rank == b.rank && a.action == b.action;
  };
  return static_cast<std::size_t>(std::ranges::mismatch(before, after, same_step).in1 - before.begin());
}

}  // namespace penstock
