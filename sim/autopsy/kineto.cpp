// Reads the traces of PyTorch's profiler. A trace has ranges of the host, operators of the host, and GPU
// kernels. If torch's pipeline runtime wrote a range for each action ("PP:3F5"), the ranges give the names
// and the order of actions:
//
//   host   |PP:1F0|PP:1SEND_F0|PP:1F1 ...        ranges of the host
//   GPU       |kernels of 1F0|    |kernels of 1F1|       launched inside the ranges
//
// On a GPU a range is a launch and not the work. A kernel belongs to the range in which the runtime call with
// its correlation was made, and an action runs from its first to its last kernel that computes. Without a GPU
// the host waits inside the range of a compute action for its RECV, so the action begins when that RECV has
// ended. Blocks are in kineto_blocks.cpp. Tests: tests/sim/traces_test.cpp.

#include "sim/autopsy/kineto.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "report/print/units.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/text/action_reader.hpp"
#include "sim/autopsy/kineto_events.hpp"
#include "sim/autopsy/recording.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

using TraceJson = nlohmann::json;

std::optional<double> number_at(const TraceJson& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const auto value = found->get<double>();
  return std::isfinite(value) && std::abs(value) < 4e18 ? std::optional(value) : std::nullopt;
}

std::string text_at(const TraceJson& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Returns a time of a trace in nanoseconds. The trace itself has microseconds.
std::optional<Ns> time_at(const TraceJson& object, const char* key) {
  const auto us = number_at(object, key);
  if (!us || std::abs(*us) > 1e15 * 4) return std::nullopt;
  return std::llround(*us * 1e3);
}

/// A collector of the events in a trace. It works while the trace is parsed, so that the parsed objects
/// need not be stored.
class EventCollector {
 public:
  /// Reads a parsed object. Returns false if the parser may discard it.
  bool take(int depth, const TraceJson& object) {
    if (!object.is_object() || depth > 2 || !object.contains("ph")) return true;
    if (text_at(object, "ph") != "X") return false;
    const auto start = time_at(object, "ts");
    const auto duration = time_at(object, "dur");
    if (!start || !duration || *duration < 0) return false;
    TraceEvent event{.start_ns = *start, .end_ns = *start + *duration};
    if (const auto args = object.find("args"); args != object.end() && args->is_object()) {
      event.correlation = static_cast<std::int64_t>(number_at(*args, "correlation").value_or(-1));
      event.sequence = static_cast<std::int64_t>(number_at(*args, "Sequence number").value_or(-1));
    }
    event.thread = static_cast<std::int64_t>(number_at(object, "tid").value_or(-1));
    add(event, text_at(object, "cat"), text_at(object, "name"));
    return false;
  }

  TraceEvents events() && { return std::move(events_); }

 private:
  void add(const TraceEvent& event, const std::string& category, const std::string& name) {
    if (category == "kernel" || category.starts_with("gpu_mem")) {
      add_kernel(events_, event, name);
    } else if (category == "cuda_runtime" || category == "cuda_driver") {
      if (event.correlation >= 0) events_.launches.push_back(event);
    } else if (category == "user_annotation" || category == "cpu_op" || category.empty()) {
      add_host_event(events_, event, name);
    }
  }

  TraceEvents events_;
};

/// Returns the latest range that began at or before `time` and has not ended. Returns nothing if there is
/// none.
std::optional<std::size_t> range_at(const std::vector<ActionRange>& ranges, Ns time) {
  const auto behind = std::ranges::upper_bound(ranges, time, {},
                                               [](const ActionRange& range) { return range.event.start_ns; });
  if (behind == ranges.begin()) return std::nullopt;
  const auto range = behind - 1;
  if (range->event.end_ns < time) return std::nullopt;
  return static_cast<std::size_t>(range - ranges.begin());
}

/// The first start and the last end of the kernels that a range launched.
struct KernelSpan {
  Ns start_ns = std::numeric_limits<Ns>::max();
  Ns end_ns = std::numeric_limits<Ns>::min();

  void add(const TraceEvent& kernel) {
    start_ns = std::min(start_ns, kernel.start_ns);
    end_ns = std::max(end_ns, kernel.end_ns);
  }
  bool empty() const { return end_ns < start_ns; }
};

/// Returns the time of each range on the GPU. For compute actions, only computing kernels count. For other
/// actions, only communicating kernels count.
std::vector<KernelSpan> kernels_of_ranges(const TraceEvents& events) {
  std::map<std::int64_t, Ns> launched_at;
  for (const TraceEvent& launch : events.launches) launched_at.emplace(launch.correlation, launch.start_ns);
  std::vector<KernelSpan> spans(events.ranges.size());
  for (const TraceEvent& kernel : events.kernels) {
    const auto launch = launched_at.find(kernel.correlation);
    if (launch == launched_at.end()) continue;
    const auto range = range_at(events.ranges, launch->second);
    if (range && is_compute(events.ranges[*range].actions.front().kind) != kernel.communicates)
      spans[*range].add(kernel);
  }
  return spans;
}

/// Corrects ranges by the waits of the host. Each RECV ends when the host's wait for it ends. Each compute
/// action begins no earlier than the ends of the RECVs for which it waited.
void begin_behind_waits(TraceEvents& events) {
  std::vector<const TraceEvent*> waits;
  for (const TraceEvent& one : events.operators) {
    if (one.receives) waits.push_back(&one);
  }
  std::ranges::stable_sort(waits, {}, [](const TraceEvent* wait) { return wait->start_ns; });
  std::vector<Ns> ends;
  for (ActionRange& range : events.ranges) {
    if (is_recv(range.actions.front().kind)) {
      const auto wait = std::ranges::lower_bound(waits, range.event.start_ns, {},
                                                 [](const TraceEvent* one) { return one->start_ns; });
      if (wait != waits.end() && (*wait)->start_ns <= range.event.end_ns)
        range.event.end_ns = std::max(range.event.end_ns, (*wait)->end_ns);
      ends.push_back(range.event.end_ns);
    } else if (is_compute(range.actions.front().kind)) {
      for (const Ns end : ends) {
        if (end > range.event.start_ns && end < range.event.end_ns) range.event.start_ns = end;
      }
    }
  }
}

std::vector<RecordedRow> rows_of_ranges(TraceEvents& events, std::int64_t rank) {
  std::ranges::stable_sort(events.ranges, {}, [](const ActionRange& range) { return range.event.start_ns; });
  const std::vector<KernelSpan> kernels = kernels_of_ranges(events);
  std::ptrdiff_t computing = 0;
  std::ptrdiff_t with_kernels = 0;
  for (std::size_t i = 0; i < events.ranges.size(); ++i) {
    if (!has_weight_version(events.ranges[i].actions.front().kind)) continue;
    ++computing;
    if (!kernels[i].empty()) ++with_kernels;
  }
  const bool on_gpu = computing > 0 && 2 * with_kernels > computing;
  if (!on_gpu) begin_behind_waits(events);
  std::vector<RecordedRow> rows;
  for (std::size_t i = 0; i < events.ranges.size(); ++i) {
    const ActionRange& range = events.ranges[i];
    RecordedRow row{.rank = rank,
                    .actions = range.actions,
                    .start_ns = range.event.start_ns,
                    .end_ns = range.event.end_ns};
    if (on_gpu) {
      if (kernels[i].empty()) continue;
      row.start_ns = kernels[i].start_ns;
      row.end_ns = kernels[i].end_ns;
    }
    for (const auto& [step, number] : events.steps) {
      if (range.event.start_ns >= step.start_ns && range.event.start_ns < step.end_ns) row.step = number;
    }
    rows.push_back(std::move(row));
  }
  // If some rows state a step, a row without a step is outside of all whole steps and is left out.
  if (std::ranges::any_of(rows, [](const RecordedRow& row) { return row.step.has_value(); }))
    std::erase_if(rows, [](const RecordedRow& row) { return !row.step; });
  return rows;
}

/// Returns the intervals in which at least one of the spans is active, ordered by start.
std::vector<std::pair<Ns, Ns>> union_of(std::vector<std::pair<Ns, Ns>> spans) {
  std::ranges::sort(spans);
  std::vector<std::pair<Ns, Ns>> joined;
  for (const auto& span : spans) {
    if (!joined.empty() && span.first <= joined.back().second) {
      joined.back().second = std::max(joined.back().second, span.second);
    } else {
      joined.push_back(span);
    }
  }
  return joined;
}

Ns length_of(const std::vector<std::pair<Ns, Ns>>& spans) {
  Ns sum = 0;
  for (const auto& [start, end] : spans) sum += end - start;
  return sum;
}

std::optional<GpuWindow> gpu_window(const std::vector<TraceEvent>& kernels) {
  if (kernels.empty()) return std::nullopt;
  std::vector<std::pair<Ns, Ns>> computing;
  std::vector<std::pair<Ns, Ns>> communicating;
  std::vector<std::pair<Ns, Ns>> all;
  for (const TraceEvent& kernel : kernels) {
    (kernel.communicates ? communicating : computing).emplace_back(kernel.start_ns, kernel.end_ns);
    all.emplace_back(kernel.start_ns, kernel.end_ns);
  }
  all = union_of(std::move(all));
  GpuWindow window{.window_ns = all.back().second - all.front().first,
                   .compute_ns = length_of(union_of(std::move(computing))),
                   .communication_ns = length_of(union_of(std::move(communicating)))};
  window.exposed_ns = length_of(all) - window.compute_ns;
  window.idle_ns = window.window_ns - length_of(all);
  return window;
}

}  // namespace

void add_host_event(TraceEvents& events, TraceEvent event, std::string_view name) {
  constexpr std::string_view kStep = "ProfilerStep#";
  if (name.starts_with("PP:")) {
    const auto actions = read_actions(name.substr(3), {.form = ActionForm::penstock, .stages = kMostNumber});
    // Ranges with other names, such as those around a whole step, are not actions and are left out.
    if (actions && !actions->empty()) events.ranges.push_back({event, *actions});
  } else if (name.starts_with(kStep)) {
    const auto number = number_of_text<std::int64_t>(name.substr(kStep.size()));
    if (number) events.steps.emplace_back(event, *number);
  } else {
    event.communicates = name.find(":send") != std::string_view::npos ||
                         name.find(":recv") != std::string_view::npos || name.starts_with("c10d::");
    event.receives = name.find(":recv") != std::string_view::npos;
    event.is_backward = name.starts_with("autograd::engine::evaluate_function");
    events.operators.push_back(event);
  }
}

void add_kernel(TraceEvents& events, TraceEvent kernel, std::string_view name) {
  kernel.communicates =
      name.find("nccl") != std::string_view::npos || name.find("deep_ep") != std::string_view::npos;
  events.kernels.push_back(kernel);
}

RankTrace rank_trace_of(TraceEvents events, std::int64_t rank) {
  RankTrace trace;
  trace.rank = rank;
  trace.gpu = gpu_window(events.kernels);
  trace.rows = rows_of_ranges(events, rank);
  if (trace.rows.empty()) trace.blocks = blocks_of(events);
  return trace;
}

std::string gpu_text(std::int64_t rank, const GpuWindow& window) {
  std::string text = fmt::format(
      "GPU of rank {}: {} = {} in which kernels compute, {} of exposed communication and {} without kernels",
      rank, format_duration(window.window_ns), format_duration(window.compute_ns),
      format_duration(window.exposed_ns), format_duration(window.idle_ns));
  if (window.communication_ns > 0) {
    const double exposed =
        static_cast<double>(window.exposed_ns) / static_cast<double>(window.communication_ns);
    text += fmt::format("; {} of {} of communication is hidden", format_percent(1 - exposed),
                        format_duration(window.communication_ns));
  }
  return text;
}

bool is_kineto(std::string_view text) { return text.find("\"traceEvents\"") != std::string_view::npos; }

std::optional<std::int64_t> rank_in_name(std::string_view file) {
  const auto name = file.substr(file.find_last_of('/') + 1);
  const auto word = name.rfind("rank");
  if (word == std::string_view::npos) return std::nullopt;
  std::string_view rest = name.substr(word + 4);
  while (!rest.empty() && (rest.front() == '_' || rest.front() == '-' || rest.front() == '.'))
    rest.remove_prefix(1);
  const auto number = leading_number<std::int32_t>(rest).value;
  if (!number || *number < 0) return std::nullopt;
  return *number;
}

tl::expected<RankTrace, std::string> read_kineto(std::string_view text, std::string_view file) {
  EventCollector collector;
  constexpr int kDeepest = 64;
  const TraceJson rest = TraceJson::parse(
      text,
      [&](int depth, TraceJson::parse_event_t event, TraceJson& parsed) {
        if (depth > kDeepest) return false;
        return event != TraceJson::parse_event_t::object_end || collector.take(depth, parsed);
      },
      false);
  if (rest.is_discarded())
    return tl::unexpected(fmt::format("{}: expected a trace as JSON, got other text", file));
  std::optional<double> stated;
  Ns base = 0;
  if (rest.is_object()) {
    if (const auto info = rest.find("distributedInfo"); info != rest.end() && info->is_object())
      stated = number_at(*info, "rank");
    base = static_cast<Ns>(number_at(rest, "baseTimeNanoseconds").value_or(0));
  }
  const auto rank = stated ? std::optional(static_cast<std::int64_t>(*stated)) : rank_in_name(file);
  if (!rank || *rank < 0) {
    return tl::unexpected(
        fmt::format("{}: expected the rank in distributedInfo or in the name of the file, such as "
                    "rank_3.json, got neither",
                    file));
  }
  TraceEvents events = std::move(collector).events();
  move_times(events, base);
  return rank_trace_of(std::move(events), *rank);
}

}  // namespace penstock
