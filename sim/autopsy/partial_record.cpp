// Describes a recording that lacks some ranks. It finds how long each recorded rank computes and waits in a
// step, and how long its passes take. It also compares the rank's list with the expected one. A replay needs
// all ranks, so recording_of() rejects such a recording, and this file is used instead.
//
//   rank 0   0F0 0F1 |......| 0B0 0F2 |...| 0B1      busy: passes; idle: between two passes of one step
//   rank 1   (no record)
//
// Tests: tests/sim/traces_test.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "sim/autopsy/autopsy.hpp"
#include "sim/autopsy/recording.hpp"
#include "sim/why/account.hpp"

namespace penstock {
namespace {

constexpr std::int64_t kMostListed = 8;

/// The stages that the recorded ranks run, and the stages that must exist according to the record.
struct SeenStages {
  std::set<std::int32_t> run;
  std::int32_t count = 0;  ///< the largest stage that is named, plus 1
};

SeenStages seen_stages(const std::vector<RecordedRow>& rows) {
  SeenStages seen;
  for (const RecordedRow& row : rows) {
    for (const Action& action : row.actions) {
      if (has_weight_version(action.kind)) seen.run.insert(action.stage);
      // A stage that sends activations or receives gradients has a next stage.
      const bool has_next =
          action.kind == ActionKind::send_forward || action.kind == ActionKind::recv_backward;
      seen.count = std::max({seen.count, action.stage + (has_next ? 2 : 1), action.peer + 1});
    }
  }
  return seen;
}

/// The rows of one rank in the order of their starts, without messages.
using RankRows = std::vector<const RecordedRow*>;

std::map<std::int64_t, RankRows> rows_by_rank(const std::vector<RecordedRow>& rows) {
  std::map<std::int64_t, RankRows> of_rank;
  for (const RecordedRow& row : rows) {
    if (!row.actions.empty() && has_weight_version(row.actions.front().kind))
      of_rank[row.rank].push_back(&row);
  }
  for (auto& [rank, list] : of_rank) std::ranges::stable_sort(list, {}, &RecordedRow::start_ns);
  return of_rank;
}

std::string text_of_row(const RecordedRow& row) {
  std::string text = to_text(row.actions.front());
  for (std::size_t i = 1; i < row.actions.size(); ++i) text += fmt::format(";{}", to_text(row.actions[i]));
  return text;
}

/// Compares the passes in the first step of the rank with its list in the expected program.
void compare_list(PartialRank& rank, const RankRows& rows, std::size_t first_step, const Program& meant) {
  if (rank.rank >= meant.rank_count()) return;
  std::vector<std::string> ran;
  for (std::size_t i = 0; i < first_step; ++i) {
    for (const Action& action : rows[i]->actions) ran.push_back(to_text(action));
  }
  std::vector<std::string> listed;
  for (const Action& action : meant.ranks[static_cast<std::size_t>(rank.rank)]) {
    if (has_weight_version(action.kind)) listed.push_back(to_text(action));
  }
  // In a program, an overlapped pair is written with a mark, which a recorded row does not have.
  const auto [at, expected] = std::ranges::mismatch(ran, listed);
  rank.as_meant = at == ran.end() && expected == listed.end();
  if (*rank.as_meant) return;
  rank.difference =
      fmt::format("action {} is {}, and {} was meant", at - ran.begin(), at == ran.end() ? "missing" : *at,
                  expected == listed.end() ? "the end of the list" : *expected);
}

PartialRank rank_of_rows(std::int64_t number, const RankRows& rows, const Program* meant) {
  PartialRank rank{.rank = number};
  std::set<Action> seen;
  std::map<ActionKind, std::vector<Ns>> durations;
  std::size_t first_step = 0;
  Ns until = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RecordedRow& row = *rows[i];
    const bool begins = i == 0 || seen.contains(row.actions.front()) || row.step != rows[i - 1]->step;
    if (begins) {
      ++rank.steps;
      seen.clear();
      until = row.start_ns;
    }
    if (rank.steps == 1) first_step = i + 1;
    const Ns gap = std::max<Ns>(0, row.start_ns - until);
    rank.idle_ns += gap;
    rank.busy_ns += std::max<Ns>(0, row.end_ns - std::max(until, row.start_ns));
    until = std::max(until, row.end_ns);
    if (gap > rank.longest_wait_ns) {
      rank.longest_wait_ns = gap;
      rank.before = text_of_row(row);
    }
    seen.insert(row.actions.begin(), row.actions.end());
    for (const Action& action : row.actions) rank.stages.insert(action.stage);
    if (row.actions.size() == 1) durations[row.actions.front().kind].push_back(row.end_ns - row.start_ns);
  }
  rank.idle_ns /= rank.steps;
  rank.busy_ns /= rank.steps;
  for (const auto& [kind, values] : durations) rank.medians.emplace_back(letters(kind), median_of(values));
  if (meant != nullptr) compare_list(rank, rows, first_step, *meant);
  return rank;
}

std::string listed_numbers(const std::vector<std::int64_t>& numbers) {
  const auto most = std::min<std::int64_t>(kMostListed, std::ssize(numbers));
  return fmt::format("{}{}", fmt::join(numbers.begin(), numbers.begin() + most, ", "),
                     most < std::ssize(numbers) ? ", .." : "");
}

std::string missing_text(const PartialRecord& record) {
  std::vector<std::string> parts;
  if (!record.missing_ranks.empty()) parts.push_back("of ranks " + listed_numbers(record.missing_ranks));
  if (!record.missing_stages.empty()) parts.push_back("of stages " + listed_numbers(record.missing_stages));
  return fmt::format("{}", fmt::join(parts, " and "));
}

}  // namespace

bool is_partial(const std::vector<RecordedRow>& rows, std::int64_t world_size) {
  if (rows.empty() || std::ranges::any_of(rows, [](const RecordedRow& row) { return row.copy.has_value(); }))
    return false;
  const SeenStages seen = seen_stages(rows);
  if (std::ssize(seen.run) < seen.count) return !seen.run.empty();
  return world_size > 1 && rows_by_rank(rows).size() == 1;
}

PartialRecord partial_record(const std::vector<RecordedRow>& rows, std::int64_t world_size,
                             const Program* meant) {
  PartialRecord record{.world_size = world_size};
  const auto of_rank = rows_by_rank(rows);
  // If the stated number of ranks does not include all recorded ranks, it is wrong and is ignored.
  if (!of_rank.empty() && world_size <= of_rank.rbegin()->first) record.world_size = 0;
  for (const auto& [rank, list] : of_rank) record.ranks.push_back(rank_of_rows(rank, list, meant));
  for (std::int64_t rank = 0; rank < std::min<std::int64_t>(record.world_size, kMostNumber); ++rank) {
    if (!of_rank.contains(rank)) record.missing_ranks.push_back(rank);
  }
  const SeenStages seen = seen_stages(rows);
  for (std::int32_t stage = 0; stage < seen.count; ++stage) {
    if (!seen.run.contains(stage)) record.missing_stages.push_back(stage);
  }
  return record;
}

std::string to_text(const PartialRecord& record, std::size_t width) {
  const std::string known = format_count(std::ssize(record.ranks), "rank");
  std::string text = fmt::format(
      "partial record of {}: the records {} are missing\n"
      "a replay and its causes need all ranks; the times below are those of single ranks, a step\n\n",
      record.world_size > 0 ? fmt::format("{} of {}", std::ssize(record.ranks), record.world_size) : known,
      missing_text(record));
  Table table{
      .columns = {"rank", "stages", "steps", "busy", "idle", "of its time", "medians", "longest wait"},
      .rows = {}};
  const bool has_meant =
      std::ranges::any_of(record.ranks, [](const PartialRank& rank) { return rank.as_meant.has_value(); });
  if (has_meant) table.columns.emplace_back("its list");
  for (const PartialRank& rank : record.ranks) {
    const Ns whole = std::max<Ns>(1, rank.busy_ns + rank.idle_ns);
    std::vector<std::string> medians;
    medians.reserve(rank.medians.size());
    for (const auto& [kind, median] : rank.medians)
      medians.push_back(fmt::format("{} {}", kind, format_duration(median)));
    std::vector<Cell> row = {
        count_cell(rank.rank),
        text_cell(fmt::format("{}", fmt::join(rank.stages, ", "))),
        count_cell(rank.steps),
        duration_cell(rank.busy_ns),
        duration_cell(rank.idle_ns),
        percent_cell(static_cast<double>(rank.idle_ns) / static_cast<double>(whole)),
        text_cell(fmt::format("{}", fmt::join(medians, ", "))),
        text_cell(rank.before.empty()
                      ? ""
                      : fmt::format("{} before {}", format_duration(rank.longest_wait_ns), rank.before))};
    if (has_meant) {
      row.push_back(text_cell(!rank.as_meant   ? "not in the program that was meant"
                              : *rank.as_meant ? "as meant"
                                               : rank.difference));
    }
    table.rows.push_back(std::move(row));
  }
  return text + table_to_text(table, width);
}

std::string partial_record_to_json(const PartialRecord& record) {
  using Json = nlohmann::ordered_json;
  Json ranks = Json::array();
  for (const PartialRank& rank : record.ranks) {
    Json medians = Json::object();
    for (const auto& [kind, median] : rank.medians) medians[kind] = median;
    ranks.push_back({{"rank", rank.rank},
                     {"stages", rank.stages},
                     {"steps", rank.steps},
                     {"busy_ns", rank.busy_ns},
                     {"idle_ns", rank.idle_ns},
                     {"median_ns", std::move(medians)},
                     {"longest_wait_ns", rank.longest_wait_ns},
                     {"longest_wait_before", rank.before.empty() ? Json(nullptr) : Json(rank.before)},
                     {"as_meant", rank.as_meant ? Json(*rank.as_meant) : Json(nullptr)},
                     {"first_difference", rank.difference.empty() ? Json(nullptr) : Json(rank.difference)}});
  }
  const Json document = {{"schema_version", 1},
                         {"kind", "partial record"},
                         {"world_size", record.world_size > 0 ? Json(record.world_size) : Json(nullptr)},
                         {"missing_ranks", record.missing_ranks},
                         {"missing_stages", record.missing_stages},
                         {"ranks", std::move(ranks)}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace penstock
