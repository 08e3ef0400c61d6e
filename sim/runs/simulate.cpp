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
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/rank_devices.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/edge_numbers.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/steady_state.hpp"
#include "sim/memory/memory.hpp"
#include "sim/network/message_costs.hpp"
#include "sim/runs/endless_stream.hpp"
#include "sim/runs/sharing_band.hpp"
#include "sim/runs/streamed_run.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

/// Bytes over every link, from the messages of the timeline.
std::vector<LinkTraffic> link_traffic(const Timeline& timeline, const Experiment& experiment) {
  std::map<std::int32_t, Bytes> bytes_of_link;
  const auto add = [&](std::int32_t from, std::int32_t to, Bytes bytes) {
    for (const std::int32_t link : experiment.cluster.route(from, to).links) bytes_of_link[link] += bytes;
  };
  std::map<std::pair<std::int32_t, std::int32_t>, Bytes> bytes_of_pair;
  const Placement& placement = experiment.program.placement;
  const EdgeNumbers edges(experiment.program);
  CollectiveRings rings(experiment);
  for (const Span& span : timeline.spans) {
    if (is_send(span.action.kind)) {
      const std::int32_t to = placement.rank_of(span.action.peer, span.action.microbatch);
      bytes_of_pair[{span.rank, to}] += transfer_bytes(experiment.costs, edges, span.action);
    } else if (is_collective(span.action.kind)) {
      const CollectiveRing& ring = rings.of(span.action);
      const auto here = std::ranges::find(ring.ranks, span.rank) - ring.ranks.begin();
      const auto next = (static_cast<std::size_t>(here) + 1) % ring.ranks.size();
      bytes_of_pair[{span.rank, ring.ranks[next]}] += ring.cost.bytes_per_link;
    }
  }
  for (const auto& [pair, bytes] : bytes_of_pair) add(pair.first, pair.second, bytes);
  std::vector<LinkTraffic> traffic;
  for (const auto& [link, bytes] : bytes_of_link) {
    if (bytes > 0) traffic.push_back({experiment.cluster.link(link).name, bytes});
  }
  return traffic;
}

std::optional<double> steady_rate(const Experiment& experiment, Engine engine) {
  const std::optional<Period> period = steady_period(experiment, engine);
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

/// `rate_of` is asked for the steady rate by the engine that ran, where `options` wants one.
tl::expected<Result, Hang> simulate_at_rate(const Experiment& experiment, const SimulateOptions& options,
                                            const std::function<std::optional<double>(Engine)>& rate_of) {
  const Engine engine = resolve(experiment, options.engine);
  auto timeline = run_engine(experiment, engine);
  if (!timeline) return tl::unexpected(std::move(timeline.error()));
  const Ns makespan_ns = timeline->makespan_ns;
  auto memories = memory_of(*timeline, experiment, options.memory);
  auto links = link_traffic(*timeline, experiment);
  const bool wants_rate = options.steady == SteadyState::find;
  const LinkSharing sharing = link_sharing(experiment, options.engine, engine);
  return summarize(*std::move(timeline),
                   {.program = experiment.program,
                    .costs = experiment.costs,
                    .samples_per_microbatch = experiment.samples_per_microbatch,
                    .kind = ResultKind::predicted,
                    .scenario = experiment.name,
                    .engine = std::string(to_text(engine)),
                    .channels = experiment.channels,
                    .link_sharing = sharing,
                    .steady_samples_per_second = wants_rate ? rate_of(engine) : std::nullopt,
                    .price_per_device_hour = experiment.price_per_device_hour,
                    .devices = rank_devices(experiment),
                    .memories = std::move(memories),
                    .links = std::move(links),
                    .notes = notes_of(experiment, options, sharing, makespan_ns)});
}

}  // namespace

tl::expected<Result, Hang> simulate(const Experiment& experiment, const SimulateOptions& options) {
  return simulate_at_rate(experiment, options,
                          [&](Engine engine) { return steady_rate(experiment, engine); });
}

namespace {

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
  if (options.spans == SpansKept::always) {
    if (auto refusal = timeline_refusal(scenario))
      return tl::unexpected(SimulateError{*std::move(refusal), false, std::nullopt});
  }
  if (options.spans == SpansKept::unless_long && is_long(scenario)) {
    if (auto streamed = streamed_result(scenario, options)) {
      return std::move(*streamed).map(
          [](Result result) { return Prediction{.result = std::move(result), .stream = std::nullopt}; });
    }
  }
  const auto experiment = prepare(scenario);
  if (!experiment) {
    return tl::unexpected(
        SimulateError{experiment.error().message, experiment.error().invalid, std::nullopt});
  }
  std::optional<EndlessStream> stream;
  auto result = simulate_at_rate(*experiment, options, [&](Engine engine) {
    if (experiment->program.update == UpdateRule::microbatch)
      stream = endless_stream(scenario, *experiment, options.engine);
    const bool is_known = stream && stream->samples_per_second;
    return is_known ? stream->samples_per_second : steady_rate(*experiment, engine);
  });
  if (!result) return tl::unexpected(SimulateError{result.error().message, true, result.error()});
  return Prediction{.result = *std::move(result), .stream = std::move(stream)};
}

tl::expected<Result, SimulateError> simulate_scenario(const Scenario& scenario,
                                                      const SimulateOptions& options) {
  auto prediction = predict(scenario, options);
  if (!prediction) return tl::unexpected(prediction.error());
  Result& result = prediction->result;
  if (prediction->stream) {
    if (auto note = steady_memory_note(result, *prediction->stream)) result.notes.push_back(*std::move(note));
  }
  return std::move(result);
}

}  // namespace penstock
