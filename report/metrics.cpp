// One pass over the spans of each rank for every figure.

#include "report/metrics.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "report/arrivals.hpp"
#include "report/holdings.hpp"
#include "report/result.hpp"
#include "report/timeline.hpp"
#include "schedules/action.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/digest.hpp"
#include "schedules/program.hpp"

namespace penstock {
namespace {

struct Activity {
  Ns busy_ns = 0;
  Ns first_ns = 0;
  Ns last_ns = 0;
};

/// Busy time, and the span from the first to the last compute action.
Activity activity(Spans spans) {
  Activity found;
  bool any = false;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (!opens_compute(spans, i)) continue;
    found.busy_ns += spans[i].end_ns - spans[i].start_ns;
    found.first_ns = any ? std::min(found.first_ns, spans[i].start_ns) : spans[i].start_ns;
    found.last_ns = std::max(found.last_ns, spans[i].end_ns);
    any = true;
  }
  return found;
}

std::uint64_t key_of(const Action& action) {
  const auto number = static_cast<std::uint32_t>(action.stage);
  return std::uint64_t{number} << 32U | static_cast<std::uint32_t>(action.microbatch);
}

Ns exposed_communication(Spans spans, RecomputeTiming recompute) {
  Arrivals arrivals(recompute);
  Ns exposed = 0;
  Ns idle_since = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    arrivals.add(spans[i]);
    if (!opens_compute(spans, i)) continue;
    if (spans[i].start_ns > idle_since) {
      exposed += covered_ns(arrivals.of_group(spans, i), idle_since, spans[i].start_ns);
    }
    idle_since = std::max(idle_since, spans[i].end_ns);
  }
  return exposed;
}

std::int32_t position_of(std::size_t i) { return static_cast<std::int32_t>(i); }

/// Activations alive: from the start of F to the end of B, or of W where the backward is split.
std::int64_t peak_live_activations(Spans spans) {
  std::vector<Holding> alive;
  std::unordered_map<std::uint64_t, std::size_t> opened;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    const bool frees =
        span.action.kind == ActionKind::backward || span.action.kind == ActionKind::backward_weight;
    if (span.action.kind == ActionKind::forward) {
      opened[key_of(span.action)] = alive.size();
      alive.push_back({.from_ns = span.start_ns, .charged_by = position_of(i)});
    } else if (frees) {
      if (const auto found = opened.find(key_of(span.action)); found != opened.end()) {
        alive[found->second].until_ns = span.end_ns;
        alive[found->second].released_by = position_of(i);
      }
    }
  }
  return peak_amount(alive);
}

struct Version {
  Ns created_ns = 0;
  std::int32_t created_by = kBeforeFirst;
  Ns last_use_ns = 0;
  std::int32_t last_user = kBeforeFirst;
};

/// A version lives from its STEP to its last use, or until the next STEP if that is later.
std::int64_t peak_of_versions(const std::vector<Version>& versions) {
  std::vector<Holding> alive;
  for (std::size_t v = 0; v < versions.size(); ++v) {
    const Version& version = versions[v];
    Holding held{.from_ns = version.created_ns, .charged_by = version.created_by};
    if (v + 1 < versions.size()) {
      const Version& next = versions[v + 1];
      const bool used_later = version.last_user > next.created_by;
      held.until_ns = used_later ? version.last_use_ns : next.created_ns;
      held.released_by = used_later ? version.last_user : next.created_by;
    }
    alive.push_back(held);
  }
  return peak_amount(alive);
}

std::int32_t peak_weight_versions(Spans spans) {
  std::map<std::int32_t, std::vector<Version>> stages;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    if (!is_compute(span.action.kind)) continue;
    std::vector<Version>& versions = stages[span.action.stage];
    if (versions.empty()) versions.emplace_back();
    if (span.action.kind == ActionKind::step) {
      versions.push_back({.created_ns = span.end_ns, .created_by = position_of(i)});
      continue;
    }
    const auto used = static_cast<std::size_t>(span.action.weight_version);
    if (used >= versions.size()) continue;
    versions[used].last_use_ns = span.end_ns;
    versions[used].last_user = position_of(i);
  }
  std::int64_t most = 1;
  for (const auto& [stage, versions] : stages) most = std::max(most, peak_of_versions(versions));
  return static_cast<std::int32_t>(most);
}

RankReport rank_report(std::int32_t rank, Spans spans, Ns makespan_ns, const MetricsInput& input) {
  RankReport report{.rank = rank, .device = {}, .memory = {}};
  report.busy_ns = activity(spans).busy_ns;
  report.idle_ns = makespan_ns - report.busy_ns;
  report.exposed_communication_ns = exposed_communication(spans, input.program.recompute);
  report.peak_live_activations = peak_live_activations(spans);
  report.weight_versions = peak_weight_versions(spans);
  for (const Span& span : spans) {
    if (is_send(span.action.kind)) report.sent_bytes += transfer_bytes(input.costs, span.action);
    if (is_recv(span.action.kind)) report.received_bytes += transfer_bytes(input.costs, span.action);
    if (is_collective(span.action.kind)) {
      const Bytes bytes = ring_bytes(input.program, input.costs, span.action);
      report.sent_bytes += bytes;
      report.received_bytes += bytes;
    }
  }
  return report;
}

BubbleReport bubble_of(const std::vector<RankReport>& ranks, std::span<const Activity> activities,
                       Ns makespan_ns) {
  double idle = 0;
  double busy = 0;
  Ns longest = -1;
  BubbleReport bubble;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    idle += static_cast<double>(ranks[rank].idle_ns);
    busy += static_cast<double>(ranks[rank].busy_ns);
    const Ns span = activities[rank].last_ns - activities[rank].first_ns;
    if (span <= longest) continue;
    longest = span;
    bubble.longest_span_rate =
        span == 0 ? 0 : static_cast<double>(span - activities[rank].busy_ns) / static_cast<double>(span);
  }
  const double total = static_cast<double>(ranks.size()) * static_cast<double>(makespan_ns);
  bubble.idle_over_total = total > 0 ? idle / total : 0;
  bubble.idle_over_ideal = busy > 0 ? idle / busy : 0;
  return bubble;
}

/// Samples that one update of the input stage covers.
double samples_per_update(const Program& program, double samples_per_microbatch) {
  std::int64_t steps = 0;
  const std::vector<std::int32_t>& holders = program.placement.stages.front().ranks;
  for (const Action& action : program.ranks[static_cast<std::size_t>(holders.front())]) {
    if (action.kind == ActionKind::step && action.stage == 0) ++steps;
  }
  if (steps == 0) return program.microbatches * samples_per_microbatch;
  return program.microbatches * samples_per_microbatch / static_cast<double>(steps);
}

ThroughputReport throughput_of(const Program& program, double samples_per_microbatch, Ns makespan_ns) {
  ThroughputReport throughput;
  throughput.samples =
      static_cast<double>(program.microbatches) * samples_per_microbatch * program.iterations;
  throughput.samples_per_update = samples_per_update(program, samples_per_microbatch);
  throughput.samples_per_second =
      makespan_ns > 0 ? throughput.samples * 1e9 / static_cast<double>(makespan_ns) : 0;
  return throughput;
}

}  // namespace

Result summarize(Timeline timeline, const MetricsInput& input) {
  Result result;
  result.makespan_ns = timeline.makespan_ns;
  result.program = {.schedule = input.program.schedule,
                    .ranks = input.program.rank_count(),
                    .stages = input.program.stage_count(),
                    .microbatches = input.program.microbatches,
                    .iterations = input.program.iterations,
                    .digest = digest(input.program)};
  std::vector<Activity> activities;
  std::int32_t rank = 0;
  for (const Spans& spans : spans_by_rank(timeline)) {
    activities.push_back(activity(spans));
    result.ranks.push_back(rank_report(rank++, spans, timeline.makespan_ns, input));
  }
  result.bubble = bubble_of(result.ranks, activities, timeline.makespan_ns);
  result.throughput = throughput_of(input.program, input.samples_per_microbatch, timeline.makespan_ns);
  result.timeline = std::move(timeline);
  return result;
}

std::optional<double> cost_per_million_samples(const ThroughputReport& throughput, std::int32_t devices,
                                               std::optional<double> price_per_device_hour) {
  const double rate = throughput.steady_samples_per_second.value_or(throughput.samples_per_second);
  if (!price_per_device_hour || rate <= 0) return std::nullopt;
  return *price_per_device_hour * devices * 1e6 / rate / 3600;
}

}  // namespace penstock
