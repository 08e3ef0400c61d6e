#include "backend/calibration_samples.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "report/arrivals.hpp"
#include "report/timeline.hpp"
#include "schedules/action.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/program.hpp"

namespace penstock {
namespace {

/// Whether gradients flow, between which stage and microbatch they come from.
using Producer = std::tuple<bool, std::int32_t, std::int32_t>;

std::map<Producer, const Span*> producers_of(const Timeline& timeline) {
  std::map<Producer, const Span*> producers;
  for (const Span& span : timeline.spans) {
    const ActionKind kind = span.action.kind;
    const bool gradient = kind == ActionKind::backward || kind == ActionKind::backward_input;
    if (kind == ActionKind::forward || gradient)
      producers[{gradient, span.action.stage, span.action.microbatch}] = &span;
  }
  return producers;
}

bool counts(const Span& span, std::int32_t steps_before, const CountedMicrobatches& counted) {
  const std::int32_t number = span.action.kind == ActionKind::step ? steps_before : span.action.microbatch;
  return number >= counted.first && number < counted.last;
}

/// The message that the action at `before` got while its rank waited for it.
void add_hop(CalibrationSamples& samples, Spans spans, const IdleBefore& before,
             const std::vector<const Span*>& waited, const std::map<Producer, const Span*>& producers,
             const CostTable& costs) {
  if (waited.size() != 1 || !is_recv(waited.front()->action.kind)) return;
  const Action& receive = waited.front()->action;
  const bool gradient = receive.kind == ActionKind::recv_backward;
  const auto sender = producers.find({gradient, receive.peer, receive.microbatch});
  if (sender == producers.end()) return;
  const Span& consumer = spans[before.position];
  const Ns idle_since = consumer.start_ns - before.idle_ns();
  if (idle_since > sender->second->end_ns) return;
  samples.hops.push_back({.from_rank = sender->second->rank,
                          .to_rank = consumer.rank,
                          .bytes = transfer_bytes(costs, receive),
                          .time_ns = consumer.start_ns - sender->second->end_ns});
}

}  // namespace

CalibrationSamples samples_of(const Timeline& timeline, const CostTable& costs,
                              const CountedMicrobatches& counted) {
  CalibrationSamples samples;
  const auto producers = producers_of(timeline);
  for (const Spans& spans : spans_by_rank(timeline)) {
    Arrivals arrivals(RecomputeTiming::early);
    std::map<std::int32_t, std::int32_t> steps;  // by stage
    std::size_t added = 0;
    bool first = true;
    for (const IdleBefore& before : idle_before_actions(spans)) {
      for (; added < before.position; ++added) arrivals.add(spans[added]);
      const Span& span = spans[before.position];
      const std::int32_t stage = span.action.stage;
      const bool is_step = span.action.kind == ActionKind::step;
      const bool counting = counts(span, is_step ? steps[stage]++ : 0, counted);
      if (counting) {
        samples.durations[{stage, span.action.kind}].push_back(span.end_ns - span.start_ns);
        const bool at_once = !first && before.transfer_ns == 0 && before.waiting_ns == 0;
        if (at_once) samples.launches[stage].push_back(before.launch_ns);
        add_hop(samples, spans, before, arrivals.of_group(spans, before.position), producers, costs);
      }
      first = false;
    }
  }
  return samples;
}

}  // namespace penstock
