// What a stored run reads from its spans, a streamed one gathers on its way (streamed_walk.cpp); here names
// of devices, traffic over links and the headline figures are put around that.
//
//          2^24 compute actions                     2^29                            2^40
//   streamed ---|---- streamed without digest ----|---- streamed, or refused ----|
//   or stored   |     or stored                     |
//
// A short run has the digest and the steady rate, too, and does not say how it was timed: a stored one has
// the same figures.

#include "sim/runs/streamed_run.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/rank_devices.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/lowered_digest.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/period.hpp"
#include "sim/engines/streamable.hpp"
#include "sim/engines/streamed_walk.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/endless_stream.hpp"
#include "sim/runs/experiment_facts.hpp"
#include "sim/runs/simulate.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

constexpr double kMostStored = 1 << 24;  // without a need
constexpr double kMostOnTimeline = 1 << 27;
constexpr double kMostNumbered = 1 << 29;  // by any engine that stores them

/// Bytes over each link, of links that carried any, in the order of their numbers.
std::vector<LinkTraffic> link_traffic(const StreamedRun& run, const Cluster& cluster) {
  std::map<LinkNumber, Bytes> bytes_of_link;
  for (const RankTraffic& traffic : run.traffic) {
    for (const LinkNumber link : cluster.route(traffic.from_rank, traffic.to_rank).links)
      bytes_of_link[link] += traffic.bytes;
  }
  std::vector<LinkTraffic> links;
  for (const auto& [link, bytes] : bytes_of_link) {
    if (bytes > 0) links.push_back({cluster.link(link).name, bytes});
  }
  return links;
}

void name_devices(std::vector<RankFigures>& ranks, const Experiment& experiment) {
  const std::vector<std::string> devices = rank_devices(experiment);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].report.device = devices[rank];
    set_device(ranks[rank].report.memory, experiment, static_cast<std::int32_t>(rank));
  }
}

/// How many STEPs the first replica of stage 0 makes: what samples per update are counted by, as loops have
/// no lists to count them in.
std::int64_t steps_of_input_stage(const RolledExperiment& rolled) {
  const std::int32_t rank = rolled.experiment.program.placement.stages.front().ranks.front();
  std::int64_t steps = 0;
  for (const RunLoop& loop : rolled.lists[index(rank)].loops()) {
    for (const ActionRun& run : loop.runs) {
      for (const PatternAction& here : run.pattern) {
        const bool counts = here.action.kind == ActionKind::step && here.action.stage == 0;
        if (counts) steps += std::int64_t{loop.count} * run.count;
      }
    }
  }
  return steps;
}

/// The steady rate of a stream: synchronous programs would have to be repeated as a whole for theirs.
std::optional<double> stream_rate(const Experiment& experiment, const StreamedRun& run) {
  const bool repeats = run.period_ns && *run.period_ns > 0 && run.period_microbatches > 0;
  if (experiment.program.update != UpdateRule::microbatch || !repeats) return std::nullopt;
  return samples_per_second({.period_ns = *run.period_ns, .microbatches = run.period_microbatches},
                            experiment.samples_per_microbatch);
}

std::string streaming_note(const StreamedRun& run) {
  const auto all = static_cast<double>(run.actions + run.jumped);
  const double share = 100 * static_cast<double>(run.jumped) / all;
  return fmt::format(
      "{:.3g} compute actions were streamed, not stored ({:.1f} % of them jumped over as repetitions): there "
      "is no digest, no timeline and no steady rate of repeated passes",
      all, share);
}

std::vector<std::string> notes_of(const Experiment& experiment, const StreamedRun& run, bool shares_links) {
  std::vector<std::string> notes = experiment.notes;
  notes.push_back(streaming_note(run));
  if (shares_links) {
    notes.push_back(fmt::format("{}: each has them to itself here, since sharing needs a stored program",
                                "messages share links"));
  }
  return notes;
}

/// What runs of any length have in common.
RunFacts facts_of(const Experiment& experiment, const StreamedRun& run) {
  RunFacts facts = facts_of_experiment(experiment);
  facts.engine = to_text(Engine::critical_path);
  facts.links = link_traffic(run, experiment.cluster);
  return facts;
}

/// Where the program of `facts` has no lists.
Result result_without_lists(const RolledExperiment& rolled, StreamedRun run, RunFacts facts) {
  facts.has_digest = false;
  facts.updates = steps_of_input_stage(rolled);
  return summarize(std::move(run.ranks), run.makespan_ns, std::move(facts));
}

Result result_of_long(const RolledExperiment& rolled, StreamedRun run, bool shares_links) {
  const Experiment& experiment = rolled.experiment;
  name_devices(run.ranks, experiment);
  RunFacts facts = facts_of(experiment, run);
  facts.engine = "streamed";
  facts.link_sharing = shares_links ? LinkSharing::left_out : LinkSharing::none;
  facts.steady_samples_per_second = stream_rate(experiment, run);
  facts.notes = notes_of(experiment, run, shares_links);
  return result_without_lists(rolled, std::move(run), std::move(facts));
}

std::optional<double> repeated_rate(const RolledExperiment& rolled) {
  const auto period = streamed_period(rolled.experiment, rolled.lists);
  if (!period || period->period_ns == 0) return std::nullopt;
  return samples_per_second(*period, rolled.experiment.samples_per_microbatch);
}

/// Actions of the lowered program: each message is a SEND and a RECV.
std::int64_t lowered_actions(const RolledExperiment& rolled, const StreamedRun& run) {
  std::int64_t actions = 2 * run.messages;
  for (const ActionLoops& list : rolled.lists) actions += list.size();
  return actions;
}

/// Of a run whose program can be stored. Nothing where an asynchronous one has no stream that says its rate.
std::optional<Prediction> run_of_short(const Scenario& scenario, const RolledExperiment& rolled,
                                       StreamedRun run, const SimulateOptions& options) {
  const Experiment& experiment = rolled.experiment;
  name_devices(run.ranks, experiment);
  RunFacts facts = facts_of(experiment, run);
  std::optional<EndlessStream> stream;
  if (options.steady == SteadyState::find && experiment.program.update == UpdateRule::microbatch) {
    stream = options.stream_of({.actions_of_pass = lowered_actions(rolled, run)}, scenario, experiment,
                               options.engine);
    if (!stream || !stream->samples_per_second) return std::nullopt;
    facts.steady_samples_per_second = stream->samples_per_second;
  } else if (options.steady == SteadyState::find) {
    facts.steady_samples_per_second = repeated_rate(rolled);
  }
  Result result = result_without_lists(rolled, std::move(run), std::move(facts));
  if (options.digest == ProgramDigest::find) {
    auto digest = lowered_digest(experiment.program, rolled.lists);
    if (!digest) return std::nullopt;
    result.program.digest = *std::move(digest);
  }
  return Prediction{.result = std::move(result), .stream = std::move(stream)};
}

/// Why a run cannot be streamed; nothing where it can.
std::optional<std::string> reason_against(const RolledExperiment& rolled, const SimulateOptions& options) {
  if (options.engine == Engine::event) return "the event engine";
  return not_streamed(rolled.experiment, rolled.lists);
}

}  // namespace

bool is_long(const Scenario& scenario) {
  return may_be_rolled(scenario) && compute_actions(scenario) > kMostStored;
}

std::optional<std::string> timeline_refusal(const Scenario& scenario) {
  const double actions = compute_actions(scenario);
  if (actions <= kMostOnTimeline || actions > kMostGenerated) return std::nullopt;
  return fmt::format(
      "a timeline of {:.3g} compute actions is too long: at most 2^27 are kept; leave out --timeline and "
      "files that draw it, or take fewer stages, microbatches or iterations",
      actions);
}

std::optional<tl::expected<Result, SimulateError>> streamed_result(const Scenario& scenario,
                                                                   const SimulateOptions& options) {
  const double actions = compute_actions(scenario);
  // What can be stored says nothing here, and the stored run says what is wrong; what cannot has no second
  // way, so that the reason is the answer.
  const bool can_be_stored = actions <= kMostNumbered;
  const auto refusal = [&](const std::string& reason) -> std::optional<tl::expected<Result, SimulateError>> {
    if (can_be_stored) return std::nullopt;
    return tl::unexpected(SimulateError{
        fmt::format(
            "{:.3g} compute actions are too many to be stored (at most 2^29 are), and cannot be streamed: {}",
            actions, reason),
        false, std::nullopt});
  };
  const auto rolled = prepare_rolled(scenario);
  if (!rolled) {
    if (can_be_stored) return std::nullopt;
    return tl::unexpected(SimulateError{rolled.error().message, rolled.error().invalid, std::nullopt});
  }
  if (const auto reason = reason_against(*rolled, options)) return refusal(*reason);
  const bool shares_links = stages_share_links(rolled->experiment);
  // Stored, an automatic choice would be the event engine, which knows of sharing.
  if (shares_links && options.engine == Engine::automatic && can_be_stored) return std::nullopt;
  auto run = stream(rolled->experiment, rolled->lists);
  if (!run) return refusal(run.error());
  return result_of_long(*rolled, *std::move(run), shares_links);
}

std::optional<Prediction> short_streamed_run(const Scenario& scenario, const SimulateOptions& options) {
  const bool is_generated = may_be_rolled(scenario) && compute_actions(scenario) > 0;
  if (!is_generated || options.memory.samples) return std::nullopt;
  const auto rolled = prepare_rolled(scenario);
  if (!rolled) return std::nullopt;
  if (reason_against(*rolled, options) || stages_share_links(rolled->experiment)) return std::nullopt;
  auto run = stream(rolled->experiment, rolled->lists);
  if (!run) return std::nullopt;
  return run_of_short(scenario, *rolled, *std::move(run), options);
}

}  // namespace penstock
