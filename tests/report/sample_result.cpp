// Makes results for tests. The times follow the rules of a pipeline, so that pictures look right. The other
// figures (memory, traffic, rates) are invented. They are round numbers that a test can expect, and they
// differ from the defaults.
//
// With 2 ranks, 2 microbatches, F of 1 ms, B of 2 ms and transfers without time, 1F1B is
//
//   ms       0  1  2  3  4  5  6  7  8  9
//   rank 0   F0 F1 .  .  B0--- .  B1---
//   rank 1   .  F0 B0--- F1 B1--- .  .

#include "tests/report/sample_result.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "report/result/sweep_table.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock::sample {

namespace {

Action forward(std::int32_t stage, std::int32_t microbatch) {
  return {.kind = ActionKind::forward, .stage = stage, .microbatch = microbatch};
}
Action backward(std::int32_t stage, std::int32_t microbatch) {
  return {.kind = ActionKind::backward, .stage = stage, .microbatch = microbatch};
}

/// Returns when the input of an action is on its rank, or nothing while the input has not been made.
std::optional<Ns> input_ready(const Action& action, const std::map<Action, Ns>& ends, const Shape& shape) {
  Action source = action;
  const bool is_forward = action.kind == ActionKind::forward;
  source.stage += is_forward ? -1 : 1;
  const bool first = is_forward && source.stage < 0;
  const bool last = !is_forward && source.stage == shape.ranks;
  if (first) return 0;
  if (last) source = forward(action.stage, action.microbatch);
  const auto found = ends.find(source);
  if (found == ends.end()) return std::nullopt;
  return found->second + (last ? 0 : shape.transfer_ns);
}

/// Appends the SEND of a compute action on this rank and the RECV on the neighbour. Both are under way at the
/// same time. Appends nothing if transfers take no time, or at the ends of the pipeline.
void append_transfer(Timeline& timeline, const Span& span, const Shape& shape) {
  const bool is_forward = span.action.kind == ActionKind::forward;
  const std::int32_t peer = span.action.stage + (is_forward ? 1 : -1);
  if (shape.transfer_ns == 0 || peer < 0 || peer == shape.ranks) return;
  Action send = {.kind = is_forward ? ActionKind::send_forward : ActionKind::send_backward,
                 .stage = span.action.stage,
                 .microbatch = span.action.microbatch,
                 .peer = peer};
  Action receive = send;
  receive.kind = is_forward ? ActionKind::recv_forward : ActionKind::recv_backward;
  std::swap(receive.stage, receive.peer);
  timeline.spans.push_back(span_of(span.rank, send, span.end_ns, span.end_ns + shape.transfer_ns));
  timeline.spans.push_back(span_of(peer, receive, span.end_ns, span.end_ns + shape.transfer_ns));
}

/// Returns the memory of a rank. The weights and twice as much optimizer state exist from the start. An
/// activation exists from the start of F to the end of B. The sum is 9 GiB plus 640 MiB for each microbatch,
/// of 11 GiB.
RankMemory memory_of(const Timeline& timeline, std::int32_t rank) {
  constexpr Bytes kWeights = Bytes{3} << 30;
  constexpr Bytes kActivation = Bytes{640} << 20;
  std::vector<std::tuple<Ns, Bytes, std::string>> changes;
  for (const Span& span : timeline.spans) {
    if (span.rank != rank) continue;
    if (span.action.kind == ActionKind::forward)
      changes.emplace_back(span.start_ns, kActivation, to_text(span.action));
    if (span.action.kind == ActionKind::backward) changes.emplace_back(span.end_ns, -kActivation, "");
  }
  std::ranges::sort(changes);
  RankMemory memory;
  MemoryByCategory held{};
  held[static_cast<std::size_t>(MemoryCategory::weights)] = kWeights;
  held[static_cast<std::size_t>(MemoryCategory::optimizer_state)] = 2 * kWeights;
  memory.samples.push_back({0, held});
  memory.peak_bytes = total_bytes(held);
  memory.at_peak = held;
  memory.peaks = held;
  memory.capacity = Bytes{11} << 30;
  for (const auto& [time_ns, bytes, text] : changes) {
    held[static_cast<std::size_t>(MemoryCategory::activations)] += bytes;
    memory.samples.push_back({time_ns, held});
    for (std::size_t i = 0; i < held.size(); ++i) memory.peaks[i] = std::max(memory.peaks[i], held[i]);
    if (total_bytes(held) <= memory.peak_bytes) continue;
    memory.peak_bytes = total_bytes(held);
    memory.at_peak = held;
    memory.peak_time_ns = time_ns;
    memory.peak_action = text;
  }
  return memory;
}

/// Returns the figures of a rank. Busy and idle time are those of the timeline, and the others are invented.
RankReport report_of(const Timeline& timeline, std::int32_t rank) {
  RankReport report;
  report.rank = rank;
  report.device = "H100-" + std::to_string(rank);
  for (const Span& span : timeline.spans) {
    if (span.rank == rank && is_compute(span.action.kind)) report.busy_ns += span.end_ns - span.start_ns;
  }
  report.idle_ns = timeline.makespan_ns - report.busy_ns;
  report.exposed_communication_ns = report.idle_ns / 4;
  report.peak_live_activations = timeline.rank_count - rank;
  report.weight_versions = 1;
  report.sent_bytes = Bytes{256} << 20;
  report.received_bytes = Bytes{255} << 20;
  report.memory = memory_of(timeline, rank);
  return report;
}

}  // namespace

Span span_of(std::int32_t rank, Action action, Ns start_ns, Ns end_ns) {
  return {.rank = rank, .action = action, .replica = 0, .start_ns = start_ns, .end_ns = end_ns};
}

std::vector<std::vector<Action>> one_f_one_b(const Shape& shape) {
  std::vector<std::vector<Action>> lists(static_cast<std::size_t>(shape.ranks));
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    auto& list = lists[static_cast<std::size_t>(rank)];
    // Forward m and backward m - warmup alternate. With 4 ranks, rank 2 runs F0 F1 B0 F2 B1 ...
    const std::int32_t warmup = std::min(shape.ranks - 1 - rank, shape.microbatches);
    for (std::int32_t m = 0; m < shape.microbatches + warmup; ++m) {
      if (m < shape.microbatches) list.push_back(forward(rank, m));
      if (m >= warmup) list.push_back(backward(rank, m - warmup));
    }
  }
  return lists;
}

std::vector<std::vector<Action>> gpipe(const Shape& shape) {
  std::vector<std::vector<Action>> lists(static_cast<std::size_t>(shape.ranks));
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    auto& list = lists[static_cast<std::size_t>(rank)];
    for (std::int32_t m = 0; m < shape.microbatches; ++m) list.push_back(forward(rank, m));
    for (std::int32_t m = 0; m < shape.microbatches; ++m) list.push_back(backward(rank, m));
  }
  return lists;
}

Timeline timeline_of(const std::vector<std::vector<Action>>& lists, const Shape& shape) {
  Timeline timeline;
  timeline.rank_count = shape.ranks;
  std::map<Action, Ns> ends;
  std::vector<std::size_t> next(lists.size(), 0);
  std::vector<Ns> free_at(lists.size(), 0);
  bool moved = true;
  // In each round, every rank advances as far as its inputs allow, until no rank can advance.
  while (moved) {
    moved = false;
    for (std::size_t rank = 0; rank < lists.size(); ++rank) {
      while (next[rank] < lists[rank].size()) {
        const Action action = lists[rank][next[rank]];
        const auto ready = input_ready(action, ends, shape);
        if (!ready) break;
        const Ns start_ns = std::max(free_at[rank], *ready);
        const Ns duration_ns = action.kind == ActionKind::forward ? shape.forward_ns : shape.backward_ns;
        const Span span = span_of(static_cast<std::int32_t>(rank), action, start_ns, start_ns + duration_ns);
        timeline.spans.push_back(span);
        append_transfer(timeline, span, shape);
        ends[action] = free_at[rank] = span.end_ns;
        ++next[rank];
        moved = true;
      }
    }
  }
  std::ranges::stable_sort(timeline.spans, {}, &Span::rank);
  for (const Span& span : timeline.spans) timeline.makespan_ns = std::max(timeline.makespan_ns, span.end_ns);
  return timeline;
}

Result result_of(const Timeline& timeline, const Shape& shape) {
  Result result;
  result.kind = ResultKind::measured;
  result.scenario = "vgg16.yaml";
  result.engine = "cpu-thread";
  result.channel = "pair";
  result.transfers = {.blocking = Blocking::each, .capacity = 2, .eager_bytes = 4096};
  result.makespan_ns = timeline.makespan_ns;
  result.program = {.schedule = "1f1b",
                    .ranks = shape.ranks,
                    .stages = shape.ranks,
                    .microbatches = shape.microbatches,
                    .iterations = 2,
                    .digest = "00c0ffee"};
  Ns busy = 0;
  Ns idle = 0;
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    result.ranks.push_back(report_of(timeline, rank));
    busy += result.ranks.back().busy_ns;
    idle += result.ranks.back().idle_ns;
  }
  if (timeline.makespan_ns > 0) {
    result.bubble = {static_cast<double>(idle) / static_cast<double>(idle + busy),
                     static_cast<double>(idle) / static_cast<double>(busy), 0.125};
    result.throughput = {
        .samples = 4.0 * shape.microbatches,
        .samples_per_update = 2.0 * shape.microbatches,
        .samples_per_second = 4e9 * shape.microbatches / static_cast<double>(timeline.makespan_ns),
        .steady_samples_per_second = 1000.0 / 3};
  }
  result.links = {{"0>1", Bytes{256} << 20}, {"1>2", Bytes{192} << 20}};
  result.notes = {"the profile was taken at one batch size"};
  result.timeline = timeline;
  return result;
}

namespace {

/// Returns a row of a sweep in which F + B take 3 ms on one rank. Its bubble follows the published formula.
SweepRow row_of(const std::string& schedule, std::int32_t stages, std::int32_t microbatches) {
  SweepRow row;
  row.schedule = schedule;
  row.stages = stages;
  row.microbatches = microbatches;
  row.micro_batch_size = 1;
  row.global_batch_size = microbatches;
  row.makespan_ns = Ns{3'000'000} * (microbatches + stages - 1);
  const double bubble = (stages - 1.0) / (microbatches + stages - 1.0);
  row.bubble = {bubble, (stages - 1.0) / microbatches, 0.25};
  if (schedule == "gpipe") row.closed_form_bubble = bubble;
  row.throughput.samples_per_second = 1e9 * microbatches / static_cast<double>(row.makespan_ns);
  row.throughput.samples_per_update = microbatches;
  row.peak_bytes = Bytes{1} << 30;
  return row;
}

SweepRow without_figures(SweepRow row, SweepStatus status, const std::string& reason) {
  row.status = status;
  if (status == SweepStatus::skipped) row.micro_batch_size.reset();
  row.reason = reason;
  return row;
}

}  // namespace

Sweep small_sweep() {
  Sweep sweep;
  sweep.title = "small";
  for (const std::int32_t microbatches : {1, 4}) {
    sweep.rows.push_back(row_of("gpipe", 1, microbatches));
    sweep.rows.push_back(row_of("gpipe", 2, microbatches));
    sweep.rows.push_back(without_figures(row_of("gpipe", 3, microbatches), SweepStatus::skipped,
                                         "3 stages need 3 devices, there are 2"));
    sweep.rows.push_back(without_figures(row_of("1f1b", 1, microbatches), SweepStatus::out_of_memory, ""));
    SweepRow steady = row_of("1f1b", 2, microbatches);
    steady.throughput.steady_samples_per_second = 1000.0 / 3;
    sweep.rows.push_back(steady);
  }
  return sweep;
}

}  // namespace penstock::sample
