// Fills in the fields of a result that do not depend on the engine. Some depend only on the experiment.
// The others are computed from the spans. So every engine fills in the same fields.

#include "sim/runs/run_facts.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "report/timeline/spans.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "sim/network/message_costs.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"
#include "topology/collective.hpp"

namespace penstock {

namespace {

/// Returns the trained model, with the values from which its rates are computed. Returns nothing if the
/// scenario has no model on named devices.
std::optional<ModelFacts> model_facts(const std::optional<TrainedModel>& trained) {
  if (!trained) return std::nullopt;
  return ModelFacts{.report = {.parameters = trained->parameters,
                               .active_parameters = trained->active_parameters,
                               .flops_per_sample = trained->flops_per_sample,
                               .devices = trained->devices},
                    .tokens_per_sample = static_cast<double>(trained->tokens_per_sample),
                    .peak_flops_per_second = trained->peak_flops_per_second};
}

}  // namespace

RunFacts facts_of_experiment(const Experiment& experiment) {
  return {.program = experiment.program,
          .costs = experiment.costs,
          .samples_per_microbatch = experiment.samples_per_microbatch,
          .copies = experiment.copies,
          .kind = ResultKind::predicted,
          .scenario = experiment.name,
          .channels = experiment.channels,
          .price_per_device_hour = experiment.price_per_device_hour,
          .notes = experiment.notes,
          .pipeline_size = experiment.pipeline_size,
          .model = model_facts(experiment.trained),
          .tokens_per_sample = static_cast<double>(experiment.trained ? experiment.trained->tokens_per_sample
                                                                      : experiment.prompt_tokens)};
}

bool is_prefill(const Experiment& experiment) {
  return is_prefill(experiment.program, static_cast<double>(experiment.prompt_tokens));
}

void set_releases(std::span<Span> spans, const Experiment& experiment) {
  TransferPrices prices(experiment);
  const Program& program = experiment.program;
  for (Span& span : spans) {
    if (!is_send(span.action.kind)) continue;
    // Microbatch numbers continue from one iteration to the next, but the placement has only the numbers of
    // one iteration.
    const std::int32_t unit = span.action.microbatch % program.unit_count();
    const std::int32_t to = program.placement.rank_of(span.action.peer, unit);
    span.released_ns = span.end_ns - prices.of(span.rank, to, 0).latency_ns;
  }
}

// Each figure of a rank depends only on the rank's own spans, and the traffic of a link depends only on the
// spans of the senders. The caller may therefore pass the spans of one rank, delete them, and make those of
// the next rank.

SentBytes::SentBytes(const Experiment& experiment)
    : experiment_(experiment),
      edges_(experiment.program),
      sizes_(experiment.costs, edges_),
      rings_(experiment) {}

void SentBytes::add(Spans of_rank, LinkBytes& links) {
  for (const Span& span : of_rank) {
    if (is_send(span.action.kind)) {
      const std::int32_t to = experiment_.program.placement.rank_of(span.action.peer, span.action.microbatch);
      bytes_to(to) += sizes_.of(span.action);
    } else if (is_collective(span.action.kind)) {
      for (const RingHop& hop : rings_.of(span.action).sent_by(span.rank)) bytes_to(hop.to) += hop.bytes;
    }
  }
  // A rank sends many messages to few neighbours, so the route is looked up once for each neighbour.
  for (const auto& [to, bytes] : bytes_to_) links.add(of_rank.front().rank, to, bytes);
  bytes_to_.clear();
}

// A linear search is enough, because a rank has few neighbours.
Bytes& SentBytes::bytes_to(std::int32_t rank) {
  const auto known = std::ranges::find(bytes_to_, rank, &std::pair<std::int32_t, Bytes>::first);
  return known != bytes_to_.end() ? known->second : bytes_to_.emplace_back(rank, 0).second;
}

SpanReadings::SpanReadings(const Experiment& experiment, const SimulateOptions& options)
    : experiment_(experiment),
      options_(options),
      edges_(experiment.program),
      memory_(experiment, options.memory),
      sent_(experiment),
      links_(experiment.cluster) {
  if (is_prefill(experiment)) first_tokens_.emplace(experiment.program);
}

void SpanReadings::add(Spans of_rank) {
  const auto rank = static_cast<std::int32_t>(figures_.size());
  if (first_tokens_) first_tokens_->add(of_rank);
  memories_.push_back(memory_.of(rank, of_rank));
  if (options_.figures == WantedFigures::of_rows) {
    figures_.push_back(compute_times_of(of_rank));
    return;
  }
  const RunFacts facts{.program = experiment_.program, .costs = experiment_.costs};
  figures_.push_back(figures_of(of_rank, facts, edges_));
  sent_.add(of_rank, links_);
}

RunFacts SpanReadings::facts() {
  RunFacts facts = facts_of_experiment(experiment_);
  facts.devices = rank_devices(experiment_);
  facts.memories = std::move(memories_);
  facts.links = links_.traffic();
  if (first_tokens_) facts.prefill = first_tokens_->rates();
  return facts;
}

}  // namespace penstock
