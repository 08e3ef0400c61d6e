// Writes an autopsy as text. First comes what was recorded, whether the expected program ran, and how ranks
// waited. Then it states how well a replay fits, what lost most time, and where the time of the explained
// step went. Tests: tests/cli/transcripts/autopsy.txt.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "report/pages/html_report.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/result/result_json.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"
#include "sim/autopsy/autopsy.hpp"
#include "sim/autopsy/recording.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

constexpr std::size_t kMostDifferences = 16;

std::string pipelines(std::int64_t count) { return format_count(count, "pipeline"); }

/// Returns the name of a rank as text: "rank 3", or "rank 3 of copy 1" if the recording has several copies.
std::string rank_text(const Autopsy& autopsy, const RankName& name) {
  if (autopsy.recording.copies == 1) return fmt::format("rank {}", name.rank);
  return fmt::format("rank {} of copy {}", name.rank, name.copy);
}

/// A line of the text: a word that says what the line is about, and the rest of the line.
struct TopicLine {
  std::string_view topic;
  std::string text;
};

TopicLine recorded_line(const Autopsy& autopsy) {
  const Recording& recording = autopsy.recording;
  return {
      "recorded",
      fmt::format("{} of {}: {}, {} and M = {} in each", format_count(std::ssize(recording.steps), "step"),
                  pipelines(recording.copies), format_count(recording.ranks_of_copy(), "rank"),
                  format_count(recording.stages, "stage"), recording.microbatches / recording.copies)};
}

TopicLine program_line(const Autopsy& autopsy) {
  if (!autopsy.was_meant) {
    return {"program", autopsy.schedule.empty()
                           ? "of no schedule of the table; --schedule names the one that was meant"
                           : autopsy.schedule};
  }
  const auto as_meant = std::ranges::count_if(
      autopsy.steps, [](const StepVerdict& step) { return step.as_meant.value_or(false); });
  return {"program", fmt::format("as meant in {} of {}", as_meant, pipelines(std::ssize(autopsy.steps)))};
}

TopicLine waiting_line(const Autopsy& autopsy) {
  const bool is_batched = autopsy.waiting == Waiting::batched;
  std::string line = fmt::format("{}, which leaves {} unexplained in step {}",
                                 is_batched ? "batched: ranks wait for all messages between two actions"
                                            : "ahead: an action waits for its own messages only",
                                 format_duration(autopsy.unexplained_ns), autopsy.explained_step);
  const char* const other = is_batched ? "ahead" : "batched";
  line += autopsy.other_unexplained_ns
              ? fmt::format("; {} would leave {}", other, format_duration(*autopsy.other_unexplained_ns))
              : fmt::format("; {} contradicts the record", other);
  return {"waiting", line};
}

/// The error of a replay: the mean and the largest difference from the measured times.
struct ReplayError {
  double mean = 0;
  double worst = 0;
};
ReplayError replay_error(const Autopsy& autopsy, Ns StepVerdict::* replayed) {
  ReplayError error;
  for (const StepVerdict& step : autopsy.steps) {
    if (step.measured_ns == 0) continue;
    const double own = static_cast<double>(step.*replayed) / static_cast<double>(step.measured_ns) - 1;
    error.mean += own / static_cast<double>(autopsy.steps.size());
    if (std::abs(own) > std::abs(error.worst)) error.worst = own;
  }
  return error;
}

TopicLine replay_line(const Autopsy& autopsy) {
  const auto text = [&](Ns StepVerdict::* replayed) {
    const ReplayError error = replay_error(autopsy, replayed);
    return fmt::format("{:+.2f} %, worst {:+.2f} %", 100 * error.mean, 100 * error.worst);
  };
  return {"replay",
          fmt::format("{}; without host gaps {}; with stage means {}", text(&StepVerdict::replayed_ns),
                      text(&StepVerdict::without_gaps_ns), text(&StepVerdict::stage_means_ns))};
}

std::vector<TopicLine> topic_lines(const Autopsy& autopsy) {
  return {recorded_line(autopsy),
          program_line(autopsy),
          waiting_line(autopsy),
          replay_line(autopsy),
          {"slowdown", fmt::format("{:.2f} over a run in which every action of a kind takes its mean",
                                   autopsy.slowdown)}};
}

std::string difference_line(const Autopsy& autopsy, const StepVerdict& step,
                            const ListDifference& difference) {
  return fmt::format("step {}, {}: action {} at {} is {}, and {} was meant", step.step,
                     rank_text(autopsy, difference.rank), difference.position,
                     format_duration(difference.start_ns),
                     difference.ran.empty() ? "missing" : difference.ran,
                     difference.meant.empty() ? "the end of the list" : difference.meant);
}

std::string differences_text(const Autopsy& autopsy) {
  std::vector<std::string> lines;
  std::size_t count = 0;
  for (const StepVerdict& step : autopsy.steps) {
    for (const ListDifference& difference : step.differences) {
      if (++count > kMostDifferences) continue;
      lines.push_back("  " + difference_line(autopsy, step, difference));
    }
  }
  if (lines.empty()) return "";
  std::string text = fmt::format("\nthe first difference of each rank\n{}\n", fmt::join(lines, "\n"));
  if (count > kMostDifferences) text += fmt::format("  and {} more\n", count - kMostDifferences);
  return text;
}

std::string blamed_text(const Autopsy& autopsy, const Blame& blame) {
  std::vector<std::string> parts;
  if (!blame.action.empty()) {
    parts.push_back(fmt::format("{} of step {}", blame.action, blame.step));
  } else if (blame.stage) {
    parts.push_back(fmt::format("stage {}", *blame.stage));
  }
  const bool sends = blame.cause == IdleCause::latency || blame.cause == IdleCause::bandwidth;
  if (blame.rank) {
    const std::string rank = blame.in_all_copies ? fmt::format("rank {} of each copy", blame.rank->rank)
                                                 : rank_text(autopsy, *blame.rank);
    parts.push_back(fmt::format("{}{}", sends ? "messages of " : "", rank));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

Table blame_table(const Autopsy& autopsy) {
  Table table{.columns = {"to blame", "because of", "part of the time", "without it", ""}, .rows = {}};
  for (const Blame& blame : autopsy.blame) {
    table.rows.push_back({text_cell(blamed_text(autopsy, blame)),
                          text_cell(std::string(to_text(blame.cause))), duration_cell(blame.ns),
                          blame.without_ns ? duration_cell(*blame.without_ns) : Cell{},
                          text_cell(blame.detail)});
  }
  return table;
}

/// Returns a table with one row for each copy of the pipeline in each step.
Table step_table(const Autopsy& autopsy) {
  const bool has_copies = autopsy.recording.copies > 1;
  Table table{.columns = {"step", "measured", "replayed", "without host gaps", "with stage means"},
              .rows = {}};
  if (has_copies) table.columns.insert(table.columns.begin() + 1, "copy");
  if (autopsy.was_meant) table.columns.insert(table.columns.end(), {"as meant", "first difference"});
  for (const StepVerdict& step : autopsy.steps) {
    std::vector<Cell> row = {count_cell(step.step)};
    if (has_copies) row.push_back(count_cell(step.copy));
    for (const Ns time : {step.measured_ns, step.replayed_ns, step.without_gaps_ns, step.stage_means_ns})
      row.push_back(duration_cell(time));
    if (autopsy.was_meant) {
      row.push_back(text_cell(step.as_meant.value_or(false) ? "yes" : "no"));
      const auto first = std::ranges::min_element(step.differences, {}, &ListDifference::start_ns);
      row.push_back(text_cell(first == step.differences.end() ? "" : difference_line(autopsy, step, *first)));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

std::string autopsy_to_html(const Autopsy& autopsy) {
  std::vector<std::string> lines;
  for (const TopicLine& line : topic_lines(autopsy))
    lines.push_back(fmt::format("{}: {}", line.topic, line.text));
  const std::vector<PageSection> sections = {
      {.title = "Recorded run", .lines = std::move(lines)},
      {.title = "What is to blame", .table = blame_table(autopsy)},
      {.title = "Steps",
       .lines = {fmt::format("The rest of the page shows step {}, the median by its makespan.",
                             autopsy.explained_step)},
       .table = step_table(autopsy)}};
  return result_to_html(autopsy.result, &autopsy.why, sections);
}

std::string autopsy_to_text(const Autopsy& autopsy, std::size_t width) {
  std::string text;
  for (const TopicLine& line : topic_lines(autopsy)) text += fmt::format("{:<12}{}\n", line.topic, line.text);
  text += differences_text(autopsy);
  if (!autopsy.blame.empty()) text += fmt::format("\n{}", table_to_text(blame_table(autopsy), width));
  text += fmt::format("\nstep {}, the median by its makespan\n", autopsy.explained_step);
  text += explanation_to_text(autopsy.why, {}, width);
  if (autopsy.recording.copies > 1) {
    text += fmt::format("a rank of the table is {0} * R + C: rank R (from 0) of copy C (from 0)\n",
                        autopsy.recording.copies);
  }
  for (const std::string& note : autopsy.notes) text += fmt::format("note: {}\n", shown_name(note));
  return text;
}

// Writes an autopsy as JSON. The document is a measured result with its timeline, so that `compare`,
// `explain` and `diff` can read it. The keys of the autopsy follow those of the result. Tests:
// tests/sim/autopsy_test.cpp.

namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
Json value_or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json difference_json(const ListDifference& difference) {
  return {{"rank", difference.rank.rank},
          {"position", difference.position},
          {"ran", text_or_null(difference.ran)},
          {"meant", text_or_null(difference.meant)},
          {"start_ns", difference.start_ns}};
}

Json step_json(const StepVerdict& step) {
  Json differences = Json::array();
  const ListDifference* first = nullptr;
  for (const ListDifference& difference : step.differences) {
    differences.push_back(difference_json(difference));
    if (first == nullptr || difference.start_ns < first->start_ns) first = &difference;
  }
  return {{"step", step.step},
          {"copy", step.copy},
          {"as_meant", value_or_null(step.as_meant)},
          {"first_difference", first == nullptr ? Json(nullptr) : difference_json(*first)},
          {"differences", std::move(differences)},
          {"measured_ns", step.measured_ns},
          {"replayed_ns", step.replayed_ns},
          {"without_gaps_ns", step.without_gaps_ns},
          {"stage_means_ns", step.stage_means_ns}};
}

Json blame_json(const Blame& blame) {
  return {{"cause", to_text(blame.cause)},
          {"step", blame.step},
          {"rank", blame.rank ? Json(blame.rank->rank) : Json(nullptr)},
          {"stage", value_or_null(blame.stage)},
          {"copy", blame.rank && !blame.in_all_copies ? Json(blame.rank->copy) : Json(nullptr)},
          {"microbatch", value_or_null(blame.microbatch)},
          {"action", text_or_null(blame.action)},
          {"ns", blame.ns},
          {"without_ns", value_or_null(blame.without_ns)},
          {"detail", blame.detail}};
}

Json bill_json(const Explanation& why) {
  Json causes = Json::array();
  for (const BillLine& line : why.bill) {
    Json items = Json::array();
    for (const CauseItem& item : line.items)
      items.push_back({{"item", item.item}, {"makespan_ns", item.makespan_ns}});
    causes.push_back({{"cause", line.cause},
                      {"idle_ns", line.idle_ns},
                      {"without_ns", value_or_null(line.without_ns)},
                      {"alone_ns", value_or_null(line.alone_ns)},
                      {"items", std::move(items)}});
  }
  return {{"makespan_ns", why.makespan_ns},
          {"busy_mean_ns", why.busy_ns / why.ranks},
          {"ideal_ns", why.ideal_ns},
          {"bound_ns", why.bound_ns},
          {"causes", std::move(causes)}};
}

}  // namespace

void write_autopsy_json(const Autopsy& autopsy, const TextSink& sink) {
  std::string text = result_to_json(autopsy.result, {.timeline = true});
  // The closing brace of the result is removed, so that the keys of the autopsy can follow in the same
  // object.
  text.erase(text.find_last_not_of("}\n \t") + 1);
  const bool is_batched = autopsy.waiting == Waiting::batched;
  const auto own = Json(autopsy.unexplained_ns);
  const Json other = value_or_null(autopsy.other_unexplained_ns);
  Json keys = {{"steps", Json::array()},
               {"meant", text_or_null(autopsy.was_meant ? autopsy.schedule : "")},
               {"waiting",
                {{"reading", to_text(autopsy.waiting)},
                 {"ahead_unexplained_ns", is_batched ? other : own},
                 {"batched_unexplained_ns", is_batched ? own : other}}},
               {"explained_step", autopsy.explained_step},
               {"slowdown", autopsy.slowdown},
               {"bill", bill_json(autopsy.why)},
               {"blame", Json::array()}};
  for (const StepVerdict& step : autopsy.steps) keys["steps"].push_back(step_json(step));
  for (const Blame& blame : autopsy.blame) keys["blame"].push_back(blame_json(blame));
  const std::string own_keys = keys.dump(2, ' ', false, Json::error_handler_t::replace);
  // The opening brace of the new keys is dropped, because they continue the object of the result.
  text += ',' + own_keys.substr(1) + '\n';
  sink(text);
}

}  // namespace penstock
