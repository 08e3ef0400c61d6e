// Computes the figures of each rank in one pass over its spans. Then it computes the figures of the run from
// them. The meter in result.hpp computes the figures that all engines share, and this file computes the
// others. Tested by metrics_test.cpp.

#include "report/result/metrics.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "report/result/result.hpp"
#include "report/result/result_figures.hpp"
#include "report/timeline/spans.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// Returns a position in a list as a number of 32 bits. This is safe, because a list has fewer than 2^31
/// actions.
std::int32_t position_of(std::size_t i) { return static_cast<std::int32_t>(i); }

/// Returns the largest number of weight versions that exist at the same time. A version that no STEP made
/// exists from the start. A version that no action drops exists until the end.
std::int64_t peak_of_versions(const VersionLives& versions, Spans spans) {
  std::vector<Holding> alive;
  const auto end_of = [&](std::int32_t position) { return spans[index(position)].end_ns; };
  for (const VersionLife& version : versions.all()) {
    Holding held;
    if (version.made_by != kNoPosition) {
      held.from_ns = end_of(version.made_by);
      held.charged_by = version.made_by;
    }
    if (version.dropped_by() != kNoPosition) {
      held.until_ns = end_of(version.dropped_by());
      held.released_by = version.dropped_by();
    }
    alive.push_back(held);
  }
  return peak_amount(alive);
}

/// Returns the largest number of weight versions of one stage that the rank holds at the same time. It is at
/// least 1.
std::int32_t peak_weight_versions(Spans spans) {
  std::map<std::int32_t, VersionLives> stages;
  // Neighbouring actions in a list usually belong to the same stage, so the last entry found is tried first.
  auto newest = stages.end();
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Action& action = spans[i].action;
    if (!is_compute(action.kind)) continue;
    if (newest == stages.end() || newest->first != action.stage)
      newest = stages.try_emplace(action.stage).first;
    newest->second.note(action, position_of(i));
  }
  std::int64_t most = 1;
  for (const auto& [stage, versions] : stages) most = std::max(most, peak_of_versions(versions, spans));
  return static_cast<std::int32_t>(most);
}

/// Returns the largest number of activations that are on the device at the same time, if the rank offloads
/// some of them. `stays` lists the times that the offloaded activations spend on the host.
std::int64_t peak_on_device(Spans spans, const HostStays& stays) {
  std::vector<Holding> held;
  // By stage and microbatch (or slice): the index in `held`.
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> open;
  const auto begin = [&](std::size_t i) {
    open[{spans[i].action.stage, spans[i].action.microbatch}] = held.size();
    held.push_back({.from_ns = spans[i].start_ns, .charged_by = position_of(i)});
  };
  const auto end = [&](Holding& holding, std::int32_t position) {
    holding.until_ns = spans[static_cast<std::size_t>(position)].end_ns;
    holding.released_by = position;
  };
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Action& action = spans[i].action;
    if (action.kind == ActionKind::forward) {
      begin(i);
      const auto stay = stays.find({action.stage, action.microbatch});
      if (stay != stays.end()) end(held.back(), stay->second.released_by);
    } else if (action.kind == ActionKind::reload) {
      begin(i);
    } else if (makes_weight_gradient(action.kind)) {
      const auto found = open.find({action.stage, action.microbatch});
      if (found != open.end()) end(held[found->second], position_of(i));
    }
  }
  return peak_amount(held);
}

/// Replaces `group` by the action at spans[i]. If an overlapped pair begins there, the group gets both of its
/// actions.
void put_group(std::vector<Action>& group, Spans spans, std::size_t i) {
  group.clear();
  for (bool goes_on = true; goes_on; ++i) {
    group.push_back(spans[i].action);
    goes_on = spans[i].action.overlaps_next && i + 1 < spans.size();
  }
}

/// Adds the bytes of a rank's messages to the meter. For each collective, it adds the bytes that the rank
/// sends if the members communicate in a ring.
void add_traffic(RankMeter& meter, Spans spans, const RunFacts& facts, const EdgeNumbers& edges) {
  TransferSizes sizes(facts.costs, edges);
  for (const Span& span : spans) {
    if (is_send(span.action.kind)) meter.send(sizes.of(span.action));
    if (is_recv(span.action.kind)) meter.receive(sizes.of(span.action));
    if (is_collective(span.action.kind)) meter.exchange(ring_bytes(facts.program, facts.costs, span.action));
  }
}

/// Returns the number of samples between two updates of the first stage that has updates. Some stages run
/// only forward passes and have none.
double samples_per_update(const Program& program, double samples_per_microbatch) {
  std::int64_t steps = 0;
  // All replicas are updated together, so it is enough to count the STEPs of one replica.
  const std::int32_t stage = first_trained_stage(program).value_or(0);
  const std::vector<std::int32_t>& holders = program.placement.stages[index(stage)].ranks;
  for (const Action& action : program.ranks[static_cast<std::size_t>(holders.front())]) {
    if (action.kind == ActionKind::step && action.stage == stage) ++steps;
  }
  // Without a STEP the whole iteration counts as one update.
  if (steps == 0) return program.microbatches * samples_per_microbatch;
  return program.microbatches * samples_per_microbatch / static_cast<double>(steps);
}

/// Returns the tokens and the operations of the model for each second of the run. `samples_per_second` is the
/// rate of all copies of the pipeline together.
ModelRates rates_of(const ModelFacts& model, double samples_per_second) {
  const auto devices = static_cast<double>(model.report.devices);
  const double tokens = samples_per_second * model.tokens_per_sample;
  const double flops = samples_per_second * model.report.flops_per_sample / devices;
  return {.tokens_per_second = tokens,
          .tokens_per_second_per_device = tokens / devices,
          .model_flops_per_second_per_device = flops,
          .mfu = flops / model.peak_flops_per_second};
}

/// Returns the throughput of the whole run, in which the pipeline also fills and drains. The steady rate is
/// the one in `facts`.
ThroughputReport throughput_of(const RunFacts& facts, Ns makespan_ns) {
  const Program& program = facts.program;
  ThroughputReport throughput;
  throughput.samples =
      static_cast<double>(program.microbatches) * facts.samples_per_microbatch * program.iterations;
  throughput.samples_per_update = facts.updates > 0
                                      ? throughput.samples / static_cast<double>(facts.updates)
                                      : samples_per_update(program, facts.samples_per_microbatch);
  throughput.samples_per_second =
      makespan_ns > 0 ? throughput.samples * 1e9 / static_cast<double>(makespan_ns) : 0;
  throughput.steady_samples_per_second = facts.steady_samples_per_second;
  throughput.cost_per_million_samples =
      cost_per_million_samples(throughput, program.rank_count(), facts.price_per_device_hour);
  if (facts.model) throughput.model = rates_of(*facts.model, throughput.samples_per_second);
  throughput.prefill = facts.prefill;
  if (throughput.prefill && facts.tokens_per_sample > 0)
    throughput.prefill->tokens_per_second = throughput.samples_per_second * facts.tokens_per_sample;
  return throughput;
}

ProgramReport program_report(const RunFacts& facts) {
  const Program& program = facts.program;
  return {.schedule = program.schedule,
          .ranks = program.rank_count(),
          .stages = program.stage_count(),
          .pipeline_size = facts.pipeline_size > 0 ? facts.pipeline_size : pipeline_size_of(program),
          .microbatches = program.microbatches,
          .iterations = program.iterations,
          .copies = facts.copies,
          .digest = facts.has_digest ? digest(program) : std::string()};
}

}  // namespace

std::int32_t pipeline_size_of(const Program& program) {
  if (program.schedule == "data-parallel") return program.stage_count();
  std::vector<bool> holds(program.ranks.size(), false);
  for (const StagePlacement& stage : program.placement.stages) {
    if (!stage.ranks.empty()) holds[index(stage.ranks.front())] = true;
  }
  return static_cast<std::int32_t>(std::ranges::count(holds, true));
}

bool is_prefill(const Program& program, double prompt_tokens) {
  const bool has_chunks = program.slices > 1 || prompt_tokens > 0;
  return has_chunks && std::ranges::all_of(program.placement.stages, [](const StagePlacement& stage) {
           return stage.passes == Passes::forward_kv;
         });
}

FirstTokens::FirstTokens(const Program& program)
    : last_stage_(program.stage_count() - 1),
      slices_(program.slices),
      ends_(static_cast<std::size_t>(program.microbatches) * static_cast<std::size_t>(program.iterations)) {}

void FirstTokens::add(Spans spans) {
  for (const Span& span : spans) {
    if (span.action.kind != ActionKind::forward || span.action.stage != last_stage_) continue;
    Ns& end = ends_[static_cast<std::size_t>(span.action.microbatch / slices_)];
    end = std::max(end, span.end_ns);
  }
}

PrefillRates FirstTokens::rates() const {
  double sum = 0;
  for (const Ns end : ends_) sum += static_cast<double>(end);
  return {.first_token_ns = static_cast<double>(ends_.front()),
          .mean_first_token_ns = sum / static_cast<double>(ends_.size())};
}

RankFigures figures_of(const RankMeter& meter) {
  RankFigures figures;
  static_cast<MeteredFigures&>(figures.report) = meter.figures();
  figures.first_ns = meter.first_ns();
  figures.last_ns = meter.last_ns();
  return figures;
}

RankFigures compute_times_of(Spans spans) {
  RankMeter meter;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    // Both actions of an overlapped pair have the same times, so only one of them is counted.
    if (opens_compute(spans, i)) meter.time(spans[i].start_ns, spans[i].end_ns);
  }
  return figures_of(meter);
}

RankFigures figures_of(Spans spans, const RunFacts& facts, const EdgeNumbers& edges) {
  RankMeter meter(facts.program);
  Arrivals arrivals(facts.program.recompute, spans);
  std::vector<Action> group;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    arrivals.add(spans[i]);
    if (!opens_compute(spans, i)) continue;
    put_group(group, spans, i);
    meter.compute(group, spans[i].start_ns, spans[i].end_ns,
                  [&](Ns from, Ns to) { return covered_ns(arrivals.of_group(spans, i), from, to); });
  }
  add_traffic(meter, spans, facts, edges);
  RankFigures figures = figures_of(meter);
  figures.report.weight_versions = peak_weight_versions(spans);
  if (const HostStays stays = host_stays(spans); !stays.empty())
    figures.report.peak_live_activations = peak_on_device(spans, stays);
  return figures;
}

Result summarize(std::vector<RankFigures> ranks, Ns makespan_ns, RunFacts facts) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    RankReport& report = ranks[rank].report;
    report.rank = static_cast<std::int32_t>(rank);
    report.idle_ns = makespan_ns - report.busy_ns;
    if (rank < facts.devices.size()) report.device = std::move(facts.devices[rank]);
    if (rank < facts.memories.size()) report.memory = std::move(facts.memories[rank]);
  }
  Result result;
  result.kind = facts.kind;
  result.scenario = std::move(facts.scenario);
  result.engine = std::move(facts.engine);
  result.channel = to_text(facts.channels.model);
  result.transfers = {.blocking = facts.channels.blocking,
                      .launch_order = facts.channels.launch_order,
                      .capacity = facts.channels.capacity,
                      .eager_bytes = facts.channels.eager_bytes};
  result.link_sharing = facts.link_sharing;
  result.makespan_ns = makespan_ns;
  result.clock_error_ns = facts.clock_error_ns;
  result.program = program_report(facts);
  if (facts.model) result.model = facts.model->report;
  result.bubble = bubble_of(ranks, makespan_ns);
  result.throughput = throughput_of(facts, makespan_ns);
  result.links = std::move(facts.links);
  result.notes = std::move(facts.notes);
  result.timeline = std::move(facts.timeline);
  result.ranks.reserve(ranks.size());
  for (RankFigures& rank : ranks) result.ranks.push_back(std::move(rank.report));
  if (const auto broken = broken_invariant(result)) throw std::logic_error(*broken);
  return result;
}

Result summarize(Timeline timeline, RunFacts facts) {
  const EdgeNumbers edges(facts.program);
  std::vector<RankFigures> ranks;
  std::optional<FirstTokens> first_tokens;
  if (is_prefill(facts.program, facts.tokens_per_sample)) first_tokens.emplace(facts.program);
  for (const Spans& spans : spans_by_rank(timeline)) {
    ranks.push_back(figures_of(spans, facts, edges));
    if (first_tokens) first_tokens->add(spans);
  }
  if (first_tokens) facts.prefill = first_tokens->rates();
  const Ns makespan_ns = timeline.makespan_ns;
  facts.timeline = std::move(timeline);
  return summarize(std::move(ranks), makespan_ns, std::move(facts));
}

std::optional<double> cost_per_million_samples(const ThroughputReport& throughput, std::int32_t devices,
                                               std::optional<double> price_per_device_hour) {
  const double rate = throughput.steady_samples_per_second.value_or(throughput.samples_per_second);
  if (!price_per_device_hour || rate <= 0) return std::nullopt;
  return *price_per_device_hour * devices * 1e6 / rate / 3600;
}

}  // namespace penstock
