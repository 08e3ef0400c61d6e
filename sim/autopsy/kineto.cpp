// Reads the traces of PyTorch's profiler. A trace has ranges of the host, operators of the host, and GPU
// kernels. If torch's pipeline runtime wrote a range for each action ("PP:3F5"), the ranges give the names
// and the order of actions:
//
//   host   |PP:1F0|PP:1SEND_F0|PP:1F1 ...        ranges of the host
//   GPU       |kernels of 1F0|    |kernels of 1F1|       launched inside the ranges
//
// On a GPU, the host only launches the work during a range. A kernel belongs to the range that contains the
// call which launched it. An action lasts from the start of its first computing kernel to the end of its last
// one. Without a GPU, the host waits for a RECV inside the range of a compute action, so the action begins
// when this RECV has ended. Tests: tests/sim/traces_test.cpp.
#include "sim/autopsy/trace_formats.hpp"

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
#include "schedules/text/text_cursor.hpp"
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
  /// Reads an object of the trace as soon as it is parsed. Returns false if the parser may discard the
  /// object.
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

/// Returns the index of the latest action range that began at or before `time` and has not ended then.
/// Returns nothing if there is none.
std::optional<std::size_t> range_at(const std::vector<ActionRange>& ranges, Ns time) {
  const auto behind = std::ranges::upper_bound(ranges, time, {},
                                               [](const ActionRange& range) { return range.event.start_ns; });
  if (behind == ranges.begin()) return std::nullopt;
  const auto range = behind - 1;
  if (range->event.end_ns < time) return std::nullopt;
  return static_cast<std::size_t>(range - ranges.begin());
}

/// The first start and the last end of the kernels that the operators in one action range launched.
struct KernelSpan {
  Ns start_ns = std::numeric_limits<Ns>::max();
  Ns end_ns = std::numeric_limits<Ns>::min();

  void add(const TraceEvent& kernel) {
    start_ns = std::min(start_ns, kernel.start_ns);
    end_ns = std::max(end_ns, kernel.end_ns);
  }
  bool empty() const { return end_ns < start_ns; }
};

/// Returns, for each action range, the time of its kernels on the GPU. For compute actions, only computing
/// kernels count. For other actions, only communicating kernels count.
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

/// Corrects the times of action ranges by the times at which the host waits. Each RECV ends when the host's
/// wait for it ends. Each compute action begins no earlier than the ends of the RECVs for which it waited.
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
  // If some rows state a step, a row without a step is outside of every recorded step and is left out.
  if (std::ranges::any_of(rows, [](const RecordedRow& row) { return row.step.has_value(); }))
    std::erase_if(rows, [](const RecordedRow& row) { return !row.step; });
  return rows;
}

/// Returns the union of the time intervals `spans`, as disjoint intervals in the order of their starts.
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
  double world_size = 0;
  Ns base = 0;
  if (rest.is_object()) {
    if (const auto info = rest.find("distributedInfo"); info != rest.end() && info->is_object()) {
      stated = number_at(*info, "rank");
      world_size = number_at(*info, "world_size").value_or(0);
    }
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
  RankTrace trace = rank_trace_of(std::move(events), *rank);
  if (world_size >= 1 && world_size <= kMostNumber) trace.world_size = static_cast<std::int64_t>(world_size);
  return trace;
}

// Finds forward and backward passes in traces that have no ranges for actions. Torch's Schedule1F1B and
// ScheduleGPipe write such traces:
//
//   recv | operators ... | send | recv | evaluate_function ... | send
//          forward                       backward
//
// Operators between two communications are one block, unless the kind changes. A backward pass belongs to the
// forward pass with which its operators share sequence numbers. Other blocks, such as those of an optimizer,
// share none and are left out. Tests: tests/sim/traces_test.cpp.

namespace {

/// Sets the start of each block to that of its first computing kernel, and the end to that of its last one.
/// Does nothing unless most blocks launched such kernels.
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
  // Number of forward passes up to the first moment at which each forward pass has had its backward pass.
  std::size_t first_drain = 0;
};

RankPasses passes_of_blocks(const std::vector<TraceBlock>& blocks) {
  std::map<std::int64_t, std::size_t> forward_of;  // the block of a forward pass, by sequence number
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
  std::map<std::size_t, std::size_t> number_of;  // the number of a forward pass, by its block
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
    joined.world_size = std::max(joined.world_size, trace.world_size);
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
  const bool is_alone = ranks.size() == 1 && joined.world_size > 1;
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    const auto stage = is_alone ? ranks.front().first : static_cast<std::int64_t>(place);
    for (const RankPasses::Pass& pass : ranks[place].second.passes) {
      const Action action{.kind = pass.is_backward ? ActionKind::backward : ActionKind::forward,
                          .stage = static_cast<std::int32_t>(stage),
                          .microbatch = static_cast<std::int32_t>(pass.forward % microbatches)};
      joined.rows.push_back({.step = static_cast<std::int64_t>(pass.forward / microbatches),
                             .rank = ranks[place].first,
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
