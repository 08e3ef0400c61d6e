// Reads Megatron-LM's timers from a training log. One rank prints the timers of an interval, as means over
// its iterations:
//
//   times across ranks (ms):
//     forward-compute:
//        rank  0: 118.20
//        rank  1: 117.95
//     backward-compute:
//     ..
//
// The time of a rank's passes is divided by the numbers of its microbatches and chunks. Tests:
// tests/sim/megatron_timers_test.cpp.

#include "sim/hold/megatron_timers.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/read/quantities.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/hold/training_log.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

constexpr std::string_view kTimersHead = "times across ranks (ms):";
constexpr std::string_view kExtremesHead = "time across ranks (ms):";
constexpr std::int64_t kMostTimedRanks = 1 << 20;
constexpr double kLongestMs = 1e12;

/// The values of one timer in milliseconds, by rank. There is one value for each report in the log.
using TimerValues = std::map<std::int32_t, std::vector<double>>;

struct TimerReports {
  std::int32_t count = 0;
  std::map<std::string, TimerValues, std::less<>> of_name;
};

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// Reads "rank  3: 118.20". Returns nothing if the line has another form.
std::optional<std::pair<std::int32_t, double>> rank_time(std::string_view line) {
  constexpr std::string_view kRank = "rank ";
  const std::size_t colon = line.find(':');
  if (!line.starts_with(kRank) || colon == std::string_view::npos) return std::nullopt;
  const auto rank =
      number_of_text<std::int32_t>(without_blanks(line.substr(kRank.size(), colon - kRank.size())));
  const auto time = finite_number(without_blanks(line.substr(colon + 1)));
  if (!rank || *rank < 0 || *rank >= kMostTimedRanks || !time || *time < 0 || *time > kLongestMs)
    return std::nullopt;
  return std::pair(*rank, *time);
}

TimerReports reports_of(std::string_view text) {
  TimerReports reports;
  TimerValues* timer = nullptr;
  bool inside = false;
  // The label that a launcher puts in front of each line of a process, such as "[default7]:" of torchrun or
  // "7: " of srun.
  std::string_view label;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = without_blanks(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with(kTimersHead)) {
      inside = true;
      timer = nullptr;
      label = without_blanks(line.substr(0, line.size() - kTimersHead.size()));
      // A logger labels only the first line of a message. If the next line has no label, the other lines of
      // the report have none.
      if (!without_blanks(text.substr(0, text.find('\n'))).starts_with(label)) label = {};
      ++reports.count;
      continue;
    }
    // Lines of other processes may stand between the lines of a report. They are skipped.
    if (!line.starts_with(label)) continue;
    line = without_blanks(line.substr(label.size()));
    if (inside && line.ends_with(':') && !line.starts_with("rank")) {
      timer = &reports.of_name[std::string(line.substr(0, line.size() - 1))];
    } else if (const auto time = rank_time(line); inside && timer != nullptr && time) {
      (*timer)[time->first].push_back(time->second);
    } else {
      inside = false;
    }
  }
  return reports;
}

/// Returns the median, or 0 for an empty list.
double median_of_times(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

/// Returns the value of an argument in a log, a whole number of at least 1. Returns nothing if it is absent
/// or has another value.
std::optional<std::int64_t> argument_of(const TrainingArguments& arguments, std::string_view name) {
  const auto found = arguments.find(name);
  if (found == arguments.end()) return std::nullopt;
  const auto value = number_of_text<std::int64_t>(found->second);
  return value && *value >= 1 && *value < kMostTimedRanks ? value : std::nullopt;
}

/// Returns the number of microbatches in an iteration, computed from the arguments in the log. Returns
/// nothing if they do not determine it.
std::optional<std::int64_t> microbatches_of(const TrainingArguments& arguments, std::int64_t ranks,
                                            std::int64_t stages) {
  const auto global = argument_of(arguments, "global_batch_size");
  const auto micro = argument_of(arguments, "micro_batch_size");
  const std::int64_t width = argument_of(arguments, "tensor_model_parallel_size").value_or(1) *
                             argument_of(arguments, "context_parallel_size").value_or(1) * stages;
  if (!global || !micro || ranks % width != 0) return std::nullopt;
  const std::int64_t batch = *micro * (ranks / width);
  return *global % batch == 0 ? std::optional(*global / batch) : std::nullopt;
}

/// Returns the times of the stage that the ranks from `first` to `last` - 1 hold. `parts` is the number of
/// passes that a timer adds up: microbatches times chunks.
TimedStage stage_of(const TimerValues& forward, const TimerValues& backward, std::int32_t first,
                    std::int32_t last, double parts) {
  TimedStage stage;
  std::vector<double> forwards;
  std::vector<double> backwards;
  std::vector<double> sums;
  for (std::int32_t rank = first; rank < last; ++rank) {
    stage.ranks.push_back(rank);
    const auto of = [&](const TimerValues& values) {
      const auto found = values.find(rank);
      return found == values.end() ? 0 : median_of_times(found->second) / parts;
    };
    forwards.push_back(of(forward));
    backwards.push_back(of(backward));
    sums.push_back(forwards.back() + backwards.back());
  }
  constexpr double kNanoseconds = 1e6;
  stage.forward_ns = std::llround(median_of_times(forwards) * kNanoseconds);
  stage.backward_ns = std::llround(median_of_times(backwards) * kNanoseconds);
  const auto slowest = std::ranges::max_element(sums);
  stage.slowest_rank = first + static_cast<std::int32_t>(slowest - sums.begin());
  const double median = median_of_times(sums);
  stage.slower = median > 0 ? *slowest / median - 1 : 0;
  return stage;
}

}  // namespace

bool has_megatron_timers(std::string_view text) {
  return text.find(kTimersHead) != std::string_view::npos ||
         text.find(kExtremesHead) != std::string_view::npos;
}

tl::expected<MegatronTimers, std::string> read_megatron_timers(std::string_view text, const std::string& file,
                                                               const TimersShape& stated) {
  const TimerReports reports = reports_of(text);
  const auto forward = reports.of_name.find("forward-compute");
  const auto backward = reports.of_name.find("backward-compute");
  if (forward == reports.of_name.end() || backward == reports.of_name.end()) {
    return tl::unexpected(fmt::format(
        "{}: expected the timers forward-compute and backward-compute of every rank, got {}: train "
        "with --timing-log-level 2 --timing-log-option all",
        file, reports.count == 0 ? "the smallest and the largest only" : "other timers"));
  }
  MegatronTimers timers;
  timers.reports = reports.count;
  timers.ranks = 1 + std::max(forward->second.rbegin()->first, backward->second.rbegin()->first);
  const TrainingArguments arguments = arguments_of(text);
  const auto stages = stated.stages ? stated.stages : argument_of(arguments, "pipeline_model_parallel_size");
  if (!stages) {
    return tl::unexpected(
        fmt::format("{}: expected pipeline_model_parallel_size, got none: give --pp-size", file));
  }
  if (timers.ranks % *stages != 0) {
    return tl::unexpected(fmt::format("{}: expected timers of a multiple of {} ranks, got {} ranks", file,
                                      *stages, timers.ranks));
  }
  const auto microbatches =
      stated.microbatches ? stated.microbatches : microbatches_of(arguments, timers.ranks, *stages);
  if (!microbatches) {
    return tl::unexpected(fmt::format(
        "{}: expected batch sizes that say how many microbatches an iteration has, got none: give "
        "--num-microbatches",
        file));
  }
  const auto chunks =
      stated.chunks ? stated.chunks : argument_of(arguments, "virtual_pipeline_model_parallel_size");
  timers.microbatches = static_cast<std::int32_t>(*microbatches);
  timers.chunks = static_cast<std::int32_t>(chunks.value_or(1));
  const auto width = timers.ranks / static_cast<std::int32_t>(*stages);
  const double parts = static_cast<double>(timers.microbatches) * timers.chunks;
  for (std::int32_t first = 0; first < timers.ranks; first += width)
    timers.stages.push_back(stage_of(forward->second, backward->second, first, first + width, parts));
  if (const auto passes = reports.of_name.find("forward-backward"); passes != reports.of_name.end()) {
    double longest = 0;
    for (const auto& [rank, values] : passes->second) longest = std::max(longest, median_of_times(values));
    timers.passes_ns = std::llround(longest * 1e6);
  }
  return timers;
}

std::string timers_scenario(const MegatronTimers& timers, std::string_view schedule,
                            const std::string& name) {
  std::vector<std::string> forward;
  std::vector<std::string> backward;
  for (std::int32_t chunk = 0; chunk < timers.chunks; ++chunk) {
    for (const TimedStage& stage : timers.stages) {
      forward.push_back(duration_text(stage.forward_ns));
      backward.push_back(duration_text(stage.backward_ns));
    }
  }
  std::string text = comment_to_yaml(fmt::format(
      "Costs of the stages by Megatron's timers in {}, medians over {} reports.", name, timers.reports));
  text += fmt::format("model:\n  stages:\n    forward: [{}]\n    backward: [{}]\n", fmt::join(forward, ", "),
                      fmt::join(backward, ", "));
  text += fmt::format("cluster: {{preset: uniform, devices: {}}}\n", timers.stages.size());
  return text + fmt::format("schedule: {{name: {}, stages: {}, microbatches: {}{}}}\n", schedule,
                            timers.stages.size(), timers.microbatches,
                            timers.chunks > 1 ? fmt::format(", virtual_stages: {}", timers.chunks) : "");
}

}  // namespace penstock
