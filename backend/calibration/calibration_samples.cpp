// Selects the measurements of a run that can be used. A duration is used if its microbatch is neither in the
// warm-up nor at the end. A launch time is used if the action did not wait for a message. The time of a
// message (hop) is used only if the consumer was already idle when the producer ended, because the consumer
// then waited only for the message:
//
//     rank 0  |F3____|
//     rank 1    idle  ~~hop~~|F3____|        time_ns = start of the consumer - end of the producer
//
// If the rank of the consumer was still busy during a hop, the time is only an upper bound, so it is not
// used. A message that stood behind another one in its channel is not used either. Tests:
// tests/backend/calibration_test.cpp.

#include "backend/calibration/calibration_samples.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "report/timeline/spans.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

namespace {

/// An output of an action, identified by its flow (activation or gradient), its stage, and its microbatch.
using Product = std::tuple<Flow, std::int32_t, std::int32_t>;

std::map<Product, const Span*> producers_of(const Timeline& timeline) {
  std::map<Product, const Span*> producers;
  for (const Span& span : timeline.spans) {
    if (const auto flow = output_of(span.action.kind))
      producers[{*flow, span.action.stage, span.action.microbatch}] = &span;
  }
  return producers;
}

/// Returns true if the span belongs to the measured microbatches, or is a measured STEP. `steps_before` is
/// the number of earlier STEPs of its stage.
bool counts(const Span& span, std::int32_t steps_before, const CountedMicrobatches& counted) {
  // A STEP has no microbatch, so its number among the STEPs of its stage is used.
  const std::int32_t number = span.action.kind == ActionKind::step ? steps_before : span.action.microbatch;
  return number >= counted.first && number < counted.last;
}

/// Returns true if the message of `receive` had to wait in its channel. This is the case if the channel
/// still carried the previous message when `producer` ended.
bool stood_in_queue(Spans spans, const Span& receive, const Span& producer) {
  const Span* previous = nullptr;
  for (const Span& span : spans) {
    if (&span == &receive) break;
    if (span.action.kind == receive.action.kind && span.action.stage == receive.action.stage)
      previous = &span;
  }
  return previous != nullptr && previous->end_ns > producer.end_ns;
}

/// Adds the time of the message (hop) for which an idle rank waited. `before` is the idle time and the
/// action after it. Adds nothing if the action waited for no message or for several.
void add_hop(CalibrationSamples& samples, Spans spans, const IdleBefore& before,
             std::span<const Span* const> waited, const std::map<Product, const Span*>& producers,
             const std::function<Bytes(const Action&)>& bytes_of) {
  // If there are several messages, it is unknown for which one the action waited.
  if (waited.size() != 1 || !is_recv(waited.front()->action.kind)) return;
  const Action& receive = waited.front()->action;
  const auto sender = producers.find({flow_of(receive.kind), receive.peer, receive.microbatch});
  if (sender == producers.end()) return;
  const Span& consumer = spans[before.position];
  const Ns idle_since = consumer.start_ns - before.idle_ns();
  if (idle_since > sender->second->end_ns || stood_in_queue(spans, *waited.front(), *sender->second)) return;
  samples.hops.push_back({.from_rank = sender->second->rank,
                          .to_rank = consumer.rank,
                          .bytes = bytes_of(receive),
                          .time_ns = consumer.start_ns - sender->second->end_ns});
}

}  // namespace

CalibrationSamples samples_of(const Timeline& timeline, const Experiment& experiment,
                              const CountedMicrobatches& counted) {
  CalibrationSamples samples;
  const auto producers = producers_of(timeline);
  const EdgeNumbers edges(experiment.program);
  const auto bytes_of = [&](const Action& transfer) {
    return transfer_bytes(experiment.costs, edges, transfer);
  };
  for (const Spans& spans : spans_by_rank(timeline)) {
    Arrivals arrivals(RecomputeTiming::early, {});
    std::map<std::int32_t, std::int32_t> steps;  // number of STEPs so far, by stage
    std::size_t added = 0;
    bool first = true;
    for (const IdleBefore& before : idle_before_actions(spans)) {
      // The action may have waited for any message that comes before it in the rank's list. So these messages
      // are added first.
      for (; added < before.position; ++added) arrivals.add(spans[added]);
      const Span& span = spans[before.position];
      const std::int32_t stage = span.action.stage;
      const bool is_step = span.action.kind == ActionKind::step;
      const bool counting = counts(span, is_step ? steps[stage]++ : 0, counted);
      if (counting) {
        samples.durations[{stage, span.action.kind}].push_back(span.end_ns - span.start_ns);
        // A launch time is measured only after an earlier action of the rank, and only if the action waited
        // for no message.
        const bool at_once = !first && before.transfer_ns == 0 && before.waiting_ns == 0;
        if (at_once) samples.launches[stage].push_back(before.launch_ns);
        add_hop(samples, spans, before, arrivals.of_group(spans, before.position), producers, bytes_of);
      }
      first = false;
    }
  }
  return samples;
}

// Fits a line with the least sum of squared errors. slope = sum (x - mean x)(y - mean y) / sum (x - mean
// x)^2. The standard error of the slope is sqrt(sum of squared residuals / (n - 2) / sum (x - mean x)^2). The
// means are subtracted first, because the squares of large x (bytes up to 10^9) would lose precision.

Spread spread_of(std::vector<Ns> samples) {
  if (samples.empty()) return {};
  std::ranges::sort(samples);
  const std::size_t last = samples.size() - 1;
  double mean = 0;
  for (const Ns sample : samples) mean += static_cast<double>(sample) / static_cast<double>(samples.size());
  return {.median_ns = samples[last / 2],
          .mean_ns = std::llround(mean),
          .middle_half_ns = samples[last - last / 4] - samples[last / 4],
          .samples = static_cast<std::int64_t>(samples.size())};
}

Line fit_line(const std::vector<LinePoint>& points) {
  if (points.empty()) return {};
  const auto count = static_cast<double>(points.size());
  double mean_x = 0;
  double mean_y = 0;
  for (const LinePoint& point : points) {
    mean_x += point.x / count;
    mean_y += point.y / count;
  }
  double of_x = 0;
  double of_xy = 0;
  for (const LinePoint& point : points) {
    of_x += (point.x - mean_x) * (point.x - mean_x);
    of_xy += (point.x - mean_x) * (point.y - mean_y);
  }
  // If all points have the same x, there is no slope. The condition is written as !(of_x > 0), so that it is
  // also true for NaN.
  if (!(of_x > 0)) return {.constant = mean_y};
  Line line{.slope = of_xy / of_x};
  line.constant = mean_y - line.slope * mean_x;
  // The error cannot be estimated from only two points.
  if (points.size() < 3) return line;
  double residual = 0;
  for (const LinePoint& point : points) residual += std::pow(point.y - line.at(point.x), 2);
  line.slope_error = std::sqrt(residual / (count - 2) / of_x);
  return line;
}

}  // namespace penstock
