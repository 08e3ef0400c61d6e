// An engine gives times; this makes a Result of them: traffic, memory, figures, the steady rate, notes about
// everything that was assumed. The same function fills the result of every question that is put to the
// simulator.

#include "sim/runs/simulate.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "report/print/units.hpp"
#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "report/timeline/arrivals.hpp"
#include "report/timeline/timeline.hpp"
#include "report/timeline/walk_timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/rank_devices.hpp"
#include "scenarios/prepare/trained_model.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/edge_numbers.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/steady_state.hpp"
#include "sim/memory/memory.hpp"
#include "sim/network/message_costs.hpp"
#include "sim/runs/endless_stream.hpp"
#include "sim/runs/memory_need.hpp"
#include "sim/runs/row_run.hpp"
#include "sim/runs/sharing_band.hpp"
#include "sim/runs/streamed_run.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

/// Bytes over every link, from the messages of one rank after the other.
class LinkBytes {
 public:
  /// The experiment must outlive it.
  explicit LinkBytes(const Experiment& experiment)
      : experiment_(experiment),
        edges_(experiment.program),
        sizes_(experiment.costs, edges_),
        rings_(experiment) {}

  void add(Spans of_rank) {
    for (const Span& span : of_rank) {
      if (is_send(span.action.kind)) {
        const std::int32_t to =
            experiment_.program.placement.rank_of(span.action.peer, span.action.microbatch);
        bytes_to(to) += sizes_.of(span.action);
      } else if (is_collective(span.action.kind)) {
        const CollectiveRing& ring = rings_.of(span.action);
        const auto here = std::ranges::find(ring.ranks, span.rank) - ring.ranks.begin();
        bytes_to(ring.ranks[(index(here) + 1) % ring.ranks.size()]) += ring.cost.bytes_per_link;
      }
    }
    for (const auto& [to, bytes] : bytes_to_) {
      for (const LinkNumber link : experiment_.cluster.route(of_rank.front().rank, to).links)
        bytes_of_link_[link] += bytes;
    }
    bytes_to_.clear();
  }

  std::vector<LinkTraffic> traffic() const {
    std::vector<LinkTraffic> traffic;
    for (const auto& [link, bytes] : bytes_of_link_) {
      if (bytes > 0) traffic.push_back({experiment_.cluster.link(link).name, bytes});
    }
    return traffic;
  }

 private:
  /// Few ranks are neighbours of one.
  Bytes& bytes_to(std::int32_t rank) {
    const auto known = std::ranges::find(bytes_to_, rank, &std::pair<std::int32_t, Bytes>::first);
    return known != bytes_to_.end() ? known->second : bytes_to_.emplace_back(rank, 0).second;
  }

  const Experiment& experiment_;
  EdgeNumbers edges_;
  TransferSizes sizes_;
  CollectiveRings rings_;
  std::vector<std::pair<std::int32_t, Bytes>> bytes_to_;  // from the rank at hand
  std::map<LinkNumber, Bytes> bytes_of_link_;
};

std::optional<double> steady_rate(const Experiment& experiment, Engine engine, const EngineRun& run) {
  const std::optional<Period> period = steady_period(experiment, engine, run);
  if (!period || period->period_ns == 0) return std::nullopt;
  return samples_per_second(*period, experiment.samples_per_microbatch);
}

/// What the engine that was taken makes of shared links; an automatic choice has looked for them.
LinkSharing link_sharing(const Experiment& experiment, Engine asked, Engine taken) {
  const bool is_event = taken == Engine::event;
  if (asked == Engine::automatic) return is_event ? LinkSharing::counted : LinkSharing::none;
  if (!links_are_shared(experiment)) return LinkSharing::none;
  return is_event ? LinkSharing::counted : LinkSharing::left_out;
}

std::vector<std::string> notes_of(const Experiment& experiment, const SimulateOptions& options,
                                  LinkSharing sharing, Ns makespan_ns) {
  std::vector<std::string> notes = experiment.notes;
  if (options.band == SharingBand::skip || sharing != LinkSharing::counted) return notes;
  if (auto note = sharing_band_note(experiment, makespan_ns)) notes.push_back(*std::move(note));
  return notes;
}

/// What is read off the spans of all ranks, one rank after the other.
struct Readings {
  std::vector<RankFigures> ranks;
  std::vector<RankMemory> memories;
  std::vector<LinkTraffic> links;
  std::vector<Span> spans;  ///< as many as are kept
};

Readings readings_of(const EngineRun& run, const Experiment& experiment, const SimulateOptions& options) {
  Readings found;
  if (options.timeline == TimelineKept::all) found.spans.reserve(run.flat.ops.size());
  const EdgeNumbers edges(experiment.program);
  const RunFacts facts{.program = experiment.program, .costs = experiment.costs};
  const MemoryOfRanks memory(experiment, options.memory);
  LinkBytes links(experiment);
  RankSpans spans(run.flat, experiment.program.placement, run.times);
  for (std::int32_t rank = 0; rank < run.flat.rank_count; ++rank) {
    const Spans of_rank = spans.of(rank);
    found.memories.push_back(memory.of(rank, of_rank));
    if (options.figures == WantedFigures::of_rows) {
      found.ranks.push_back(compute_times_of(of_rank));
      continue;
    }
    found.ranks.push_back(figures_of(of_rank, facts, edges));
    links.add(of_rank);
    if (options.timeline == TimelineKept::all)
      found.spans.insert(found.spans.end(), of_rank.begin(), of_rank.end());
  }
  found.links = links.traffic();
  return found;
}

/// `rate_of` is asked for the steady rate by the engine that ran, where `options` wants one.
using RateOf = std::function<std::optional<double>(Engine, const EngineRun&)>;

tl::expected<Result, Hang> simulate_at_rate(const Experiment& experiment, const SimulateOptions& options,
                                            const RateOf& rate_of) {
  const Engine engine = resolve(experiment, options.engine);
  const auto run = run_engine(experiment, engine);
  if (!run) return tl::unexpected(run.error());
  const Ns makespan_ns = last_end(run->times);
  Readings found = readings_of(*run, experiment, options);
  const bool wants_rate = options.steady == SteadyState::find;
  const bool has_digest = options.figures == WantedFigures::all && options.digest == ProgramDigest::find;
  const LinkSharing sharing = link_sharing(experiment, options.engine, engine);
  Result result = summarize(std::move(found.ranks), makespan_ns,
                            {.program = experiment.program,
                             .costs = experiment.costs,
                             .samples_per_microbatch = experiment.samples_per_microbatch,
                             .kind = ResultKind::predicted,
                             .scenario = experiment.name,
                             .engine = std::string(to_text(engine)),
                             .channels = experiment.channels,
                             .link_sharing = sharing,
                             .steady_samples_per_second = wants_rate ? rate_of(engine, *run) : std::nullopt,
                             .price_per_device_hour = experiment.price_per_device_hour,
                             .devices = rank_devices(experiment),
                             .memories = std::move(found.memories),
                             .links = std::move(found.links),
                             .notes = notes_of(experiment, options, sharing, makespan_ns),
                             .has_digest = has_digest});
  if (options.timeline == TimelineKept::all) {
    result.timeline = {
        .rank_count = run->flat.rank_count, .makespan_ns = makespan_ns, .spans = std::move(found.spans)};
  }
  return with_model_rates(std::move(result), experiment);
}

}  // namespace

Result with_model_rates(Result result, const Experiment& experiment) {
  if (!experiment.trained) return result;
  const TrainedModel& trained = *experiment.trained;
  result.model = ModelReport{.parameters = trained.parameters,
                             .active_parameters = trained.active_parameters,
                             .flops_per_sample = trained.flops_per_sample,
                             .devices = trained.devices};
  const auto devices = static_cast<double>(trained.devices);
  const double samples = result.throughput.samples_per_second;
  const double tokens = samples * static_cast<double>(trained.tokens_per_sample);
  const double flops = samples * trained.flops_per_sample / devices;
  result.throughput.model = ModelRates{.tokens_per_second = tokens,
                                       .tokens_per_second_per_device = tokens / devices,
                                       .model_flops_per_second_per_device = flops,
                                       .mfu = flops / trained.peak_flops_per_second};
  return result;
}

tl::expected<Result, Hang> simulate(const Experiment& experiment, const SimulateOptions& options) {
  return simulate_at_rate(experiment, options, [&](Engine engine, const EngineRun& run) {
    return steady_rate(experiment, engine, run);
  });
}

namespace {

constexpr const char* kMeanRate =
    "the stream shows no period: its steady rate is the mean over whole rounds of the replicas, once the "
    "pipeline is full";

/// That the rate of a stream is given although a device is too small for it; nothing when all are large
/// enough, or when the run itself does not fit, which is reported anyway.
std::optional<std::string> steady_memory_note(const Result& result, const EndlessStream& stream) {
  for (const RankReport& rank : result.ranks) {
    if (rank.memory.out_of_memory()) return std::nullopt;
  }
  const auto rank = fullest_out_of_memory(stream.memories);
  if (!rank) return std::nullopt;
  const RankMemory& memory = stream.memories[*rank];
  return fmt::format(
      "this run fits in memory, but the stream's steady state needs {} on rank {} ({}), which has {}: the "
      "steady rate is what it would be with enough memory",
      format_memory(memory.peak_bytes, memory.unit), *rank, result.ranks[*rank].device,
      format_memory(*memory.capacity, memory.unit));
}

}  // namespace

std::optional<std::size_t> fullest_out_of_memory(const std::vector<RankMemory>& memories) {
  const auto lacking = [](const RankMemory& memory) {
    return memory.out_of_memory() ? memory.peak_bytes - *memory.capacity : 0;
  };
  const auto found = std::ranges::max_element(memories, {}, lacking);
  if (found == memories.end() || lacking(*found) == 0) return std::nullopt;
  return static_cast<std::size_t>(found - memories.begin());
}

tl::expected<Prediction, SimulateError> predict(const Scenario& scenario, const SimulateOptions& options) {
  if (options.timeline == TimelineKept::all) {
    if (auto refusal = timeline_refusal(scenario))
      return tl::unexpected(SimulateError{*std::move(refusal), false, std::nullopt});
  }
  if (options.timeline == TimelineKept::none && is_long(scenario)) {
    if (auto streamed = streamed_result(scenario, options)) {
      return std::move(*streamed).map(
          [](Result result) { return Prediction{.result = std::move(result), .stream = std::nullopt}; });
    }
  }
  if (options.figures == WantedFigures::of_rows) {
    if (auto row = row_prediction(scenario, options)) return *std::move(row);
  }
  if (options.timeline == TimelineKept::none && options.figures == WantedFigures::all) {
    if (auto streamed = short_streamed_result(scenario, options))
      return Prediction{.result = *std::move(streamed), .stream = std::nullopt};
  }
  if (auto refusal = memory_refusal(scenario, options))
    return tl::unexpected(SimulateError{*std::move(refusal), false, std::nullopt});
  const auto experiment = prepare(scenario);
  if (!experiment) {
    return tl::unexpected(
        SimulateError{experiment.error().message, experiment.error().invalid, std::nullopt});
  }
  std::optional<EndlessStream> stream;
  auto result = simulate_at_rate(*experiment, options, [&](Engine engine, const EngineRun& run) {
    if (experiment->program.update == UpdateRule::microbatch)
      stream = options.stream_of(scenario, *experiment, options.engine);
    const bool is_known = stream && stream->samples_per_second;
    return is_known ? stream->samples_per_second : steady_rate(*experiment, engine, run);
  });
  if (!result) return tl::unexpected(SimulateError{result.error().message, true, result.error()});
  const std::int32_t copies = experiment->trained ? experiment->trained->copies : 1;
  return Prediction{.result = *std::move(result), .stream = std::move(stream), .copies = copies};
}

tl::expected<Result, SimulateError> simulate_scenario(const Scenario& scenario,
                                                      const SimulateOptions& options) {
  auto prediction = predict(scenario, options);
  if (!prediction) return tl::unexpected(prediction.error());
  Result& result = prediction->result;
  if (prediction->stream) {
    if (auto note = steady_memory_note(result, *prediction->stream)) result.notes.push_back(*std::move(note));
    if (!prediction->stream->is_exact && result.throughput.steady_samples_per_second)
      result.notes.emplace_back(kMeanRate);
  }
  return std::move(result);
}

}  // namespace penstock
