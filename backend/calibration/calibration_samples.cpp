// Selects the measurements of a run that can be used. A duration is used if its microbatch is neither in the
// warm-up nor at the end. A launch time is used if the action did not wait for a message. The time of a
// message (hop) is used only if the consumer was already idle when the producer ended. Then it waited only
// for the message:
//
//     rank 0  |F3____|
//     rank 1    idle  ~~hop~~|F3____|        time_ns = start of the consumer - end of the producer
//
// If the consumer's rank was still busy during a hop, the time gives only an upper bound, so it is not used.
// Tests: tests/backend/calibration_test.cpp.

#include "backend/calibration/calibration_samples.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "report/timeline/arrivals.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/edge_numbers.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// An output of an action: activation or gradient, stage, and microbatch.
using Product = std::tuple<Flow, std::int32_t, std::int32_t>;

std::map<Product, const Span*> producers_of(const Timeline& timeline) {
  std::map<Product, const Span*> producers;
  for (const Span& span : timeline.spans) {
    if (const auto flow = output_of(span.action.kind))
      producers[{*flow, span.action.stage, span.action.microbatch}] = &span;
  }
  return producers;
}

/// Returns true if the span is among the measured microbatches. `steps_before` is the number of earlier STEPs
/// of its stage.
bool counts(const Span& span, std::int32_t steps_before, const CountedMicrobatches& counted) {
  // A STEP has no microbatch, so its number among the STEPs of its stage is used.
  const std::int32_t number = span.action.kind == ActionKind::step ? steps_before : span.action.microbatch;
  return number >= counted.first && number < counted.last;
}

/// Adds the time of the message for which the action at `before` waited, if it waited for exactly one.
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
  if (idle_since > sender->second->end_ns) return;
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
    Arrivals arrivals(RecomputeTiming::early);
    std::map<std::int32_t, std::int32_t> steps;  // number of STEPs so far, by stage
    std::size_t added = 0;
    bool first = true;
    for (const IdleBefore& before : idle_before_actions(spans)) {
      // The action may have waited for every message that comes before it in the list.
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

}  // namespace penstock
