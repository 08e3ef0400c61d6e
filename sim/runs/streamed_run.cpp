// A streamed walk collects the same figures that a stored run reads from its spans (streamed_walk.cpp). This
// file adds device names, traffic over links and the headline figures.
//
// The result of a short run also has the digest and the steady rate. It does not name the streamed engine,
// because its figures equal those of a stored run. tests/sim/streamed_run_test.cpp compares the two.

#include "sim/runs/streamed_run.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/rank_devices.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/lowered_digest.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/period.hpp"
#include "sim/engines/streamed_walk.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/experiment_facts.hpp"
#include "sim/runs/link_bytes.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

std::vector<LinkTraffic> link_traffic(const StreamedRun& run, const Cluster& cluster) {
  LinkBytes links(cluster);
  for (const RankTraffic& traffic : run.traffic) links.add(traffic.from_rank, traffic.to_rank, traffic.bytes);
  return links.traffic();
}

void name_devices(std::vector<RankFigures>& ranks, const Experiment& experiment) {
  const std::vector<std::string> devices = rank_devices(experiment);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].report.device = devices[rank];
    set_device(ranks[rank].report.memory, experiment, static_cast<std::int32_t>(rank));
  }
}

/// Returns the number of STEPs of the first replica of stage 0. Samples per update are computed from it,
/// because a program of loops has no lists in which to count STEPs.
std::int64_t steps_of_input_stage(const Experiment& experiment) {
  const std::int32_t rank = experiment.program.placement.stages.front().ranks.front();
  std::int64_t steps = 0;
  for (const RunLoop& loop : experiment.loops[index(rank)].loops()) {
    for (const ActionRun& run : loop.runs) {
      for (const PatternAction& here : run.pattern) {
        const bool counts = here.action.kind == ActionKind::step && here.action.stage == 0;
        if (counts) steps += std::int64_t{loop.count} * run.count;
      }
    }
  }
  return steps;
}

/// Returns the steady rate of a stream. Returns nothing for synchronous programs, because a walk does not
/// repeat them.
std::optional<double> stream_rate_of(const Experiment& experiment, const StreamedRun& run) {
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

/// Returns the facts that short and long runs have in common.
RunFacts facts_of(const Experiment& experiment, const StreamedRun& run) {
  RunFacts facts = facts_of_experiment(experiment);
  facts.engine = to_text(Engine::critical_path);
  facts.links = link_traffic(run, experiment.cluster);
  return facts;
}

/// Makes the result of a program that has no lists.
Result result_without_lists(const Experiment& experiment, StreamedRun run, RunFacts facts) {
  facts.has_digest = false;
  facts.updates = steps_of_input_stage(experiment);
  return summarize(std::move(run.ranks), run.makespan_ns, std::move(facts));
}

Result result_of_long(const Experiment& experiment, StreamedRun run, bool shares_links) {
  RunFacts facts = facts_of(experiment, run);
  facts.engine = "streamed";
  facts.link_sharing = shares_links ? LinkSharing::left_out : LinkSharing::none;
  facts.steady_samples_per_second = stream_rate_of(experiment, run);
  facts.notes = notes_of(experiment, run, shares_links);
  return result_without_lists(experiment, std::move(run), std::move(facts));
}

std::optional<double> repeated_rate(const Experiment& experiment) {
  const auto period = streamed_period(experiment, experiment.loops);
  if (!period || period->period_ns == 0) return std::nullopt;
  return samples_per_second(*period, experiment.samples_per_microbatch);
}

Result result_of_short(const Experiment& experiment, StreamedRun run, const SimulateOptions& options,
                       std::optional<double> stream_rate) {
  RunFacts facts = facts_of(experiment, run);
  facts.steady_samples_per_second = stream_rate;
  const bool repeats = experiment.program.update != UpdateRule::microbatch;
  if (repeats && options.steady == SteadyState::find)
    facts.steady_samples_per_second = repeated_rate(experiment);
  Result result = result_without_lists(experiment, std::move(run), std::move(facts));
  // lowered_digest() cannot fail, because it uses the same placement rounds as the walk, which did not stall.
  if (options.digest == ProgramDigest::find)
    result.program.digest = lowered_digest(experiment.program, experiment.loops).value();
  return result;
}

}  // namespace

tl::expected<Result, StalledTurns> streamed_run(const Experiment& experiment, const RunPlan& plan,
                                                const SimulateOptions& options,
                                                std::optional<double> stream_rate) {
  auto run = stream(experiment, experiment.loops);
  if (!run) return tl::unexpected(StalledTurns{std::move(run.error())});
  name_devices(run->ranks, experiment);
  return plan.is_long ? result_of_long(experiment, *std::move(run), plan.shares_links)
                      : result_of_short(experiment, *std::move(run), options, stream_rate);
}

}  // namespace penstock
