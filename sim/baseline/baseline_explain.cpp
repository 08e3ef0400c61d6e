// Explains what got worse, compared with a baseline. It shows the differences of the program and the first
// step at which the longest path differs. It also shows the time that each part of the path adds, and the
// memory of the fullest rank. The changes of all parts add up to the change of the makespan. The changes of
// all memory categories add up to the change of the peak. Only the first differences are shown, so that a
// program of thousands of ranks stays readable.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/print/memory_category.hpp"
#include "report/print/units.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/text/program_diff.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/baseline/baseline.hpp"
#include "sim/baseline/longest_path.hpp"

namespace penstock {
namespace {

constexpr std::size_t kMostChanges = 3;  // limit of the changes shown for one rank's list
constexpr std::size_t kMostRanks = 8;
constexpr std::size_t kMostShares = 8;
constexpr std::size_t kMostSettings = 8;
constexpr std::size_t kWidest = 80;  // limit of the bytes shown for removed actions, and for added ones

std::string signed_duration(Ns ns) {
  return fmt::format("{}{}", ns < 0 ? "-" : "+", format_duration(ns < 0 ? -ns : ns));
}

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

/// Shortens a diff to its first differences. A change shows the beginning of both the removed and the added
/// actions, because one alone explains little.
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

/// Returns the program without its messages. A baseline holds lowered programs. A program that breaks a rule
/// is compared as its author wrote it, often without messages.
Program without_messages(Program program) {
  for (std::vector<Action>& list : program.ranks)
    std::erase_if(list, [](const Action& action) { return is_transfer(action.kind); });
  return program;
}

/// Returns how the program differs, rank by rank.
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

/// Returns a text about the first difference of the paths. For example: "the longest path leaves the old one
/// after rank 0 0F3 at 3.000 ms: rank 1 1F3 at 4.000 ms, where it was rank 0 0B0 at 9.000 ms".
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
  // Either one of the two programs hangs, or nothing has changed.
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

/// Returns what the fullest rank holds at its peak, if that has changed.
std::vector<std::string> peak_lines(const std::optional<HeldPeak>& then, const std::optional<HeldPeak>& now) {
  // An older baseline has no peak, and bytes cannot be compared with activations.
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

}  // namespace penstock
