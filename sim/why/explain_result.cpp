// Explains a stored result from its spans. The spans are the lists of the program that ran. A walk over
// these lists finds what each action waited for. The times of the spans are the costs. A prediction has no
// lags, unless it has rules that its spans do not show. In a measurement, an action may start later than
// its latest input. This lag counts as a launch. Tests: tests/sim/why_test.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "report/pages/html_report.hpp"
#include "report/result/result.hpp"
#include "report/timeline/spans.hpp"
#include "report/timeline/timeline.hpp"
#include "report/why/explanation.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/why/account.hpp"
#include "sim/why/explain.hpp"

namespace penstock {

namespace {

/// Returns `late` if each recorded R starts after the gradient of its microbatch has arrived. Returns `early`
/// otherwise, and also if the spans do not show when gradients arrived.
RecomputeTiming recompute_timing(const Timeline& timeline) {
  std::map<std::pair<std::int32_t, std::int32_t>, Ns> arrivals;
  for (const Span& span : timeline.spans) {
    if (span.action.kind == ActionKind::recv_backward)
      arrivals[{span.action.stage, span.action.microbatch}] = span.end_ns;
  }
  bool is_late = false;
  for (const Span& span : timeline.spans) {
    if (span.action.kind != ActionKind::recompute) continue;
    const auto arrival = arrivals.find({span.action.stage, span.action.microbatch});
    if (arrival == arrivals.end()) continue;
    if (span.start_ns < arrival->second) return RecomputeTiming::early;
    is_late = true;
  }
  return is_late ? RecomputeTiming::late : RecomputeTiming::early;
}

/// Returns a program whose lists are the spans of a result, as one iteration. Rules that a result does not
/// state, such as a barrier, are absent. The delay that they cause appears as a late start.
Program listed_program(const Result& result) {
  Program program{.schedule = result.program.schedule, .microbatches = 0};
  program.ranks.resize(index(result.timeline.rank_count));
  std::int32_t stages = result.program.stages;
  for (const Span& span : result.timeline.spans) {
    stages = std::max({stages, span.action.stage + 1, span.action.peer + 1});
    program.microbatches = std::max(program.microbatches, span.action.microbatch + 1);
  }
  program.placement.stages.resize(index(stages));
  std::set<StageEdge> edges;
  for (const Span& span : result.timeline.spans) {
    StagePlacement& stage = program.placement.stages[index(span.action.stage)];
    if (stage.ranks.size() <= index(span.replica)) stage.ranks.resize(index(span.replica) + 1, span.rank);
    stage.ranks[index(span.replica)] = span.rank;
    if (stage.route.size() < index(program.microbatches)) stage.route.resize(index(program.microbatches), 0);
    if (span.action.microbatch >= 0) stage.route[index(span.action.microbatch)] = span.replica;
    if (is_transfer(span.action.kind)) edges.insert(edge_of(span.action));
    program.ranks[index(span.rank)].push_back(span.action);
  }
  program.recompute = recompute_timing(result.timeline);
  const bool is_chain =
      std::ranges::all_of(edges, [](const StageEdge& edge) { return edge.to == edge.from + 1; });
  if (!is_chain) program.edges.assign(edges.begin(), edges.end());
  return program;
}

/// Returns the reason why the spans cannot be those of one run, or nothing. It checks that all numbers are
/// in range before tables of that size are made, because the file may come from anywhere.
std::optional<std::string> timeline_fault(const Timeline& timeline) {
  const auto spans = std::ssize(timeline.spans);
  std::int64_t stages = 0;
  std::int64_t units = 0;
  for (const Span& span : timeline.spans) {
    if (span.replica < 0 || span.replica >= timeline.rank_count) {
      return fmt::format("replica of {}: expected 0 to {}, got {}", to_text(span.action),
                         timeline.rank_count - 1, span.replica);
    }
    stages = std::max({stages, std::int64_t{span.action.stage} + 1, std::int64_t{span.action.peer} + 1});
    units = std::max(units, std::int64_t{span.action.microbatch} + 1);
  }
  // Each microbatch has an action on each stage. Numbers that are too large for the number of spans are
  // wrong, and would lead to huge tables.
  if (stages > spans || units > spans || stages * units > 4 * spans) {
    return fmt::format("expected an action of each of {} microbatches on each of {} stages, got {} actions",
                       units, stages, spans);
  }
  return std::nullopt;
}

/// Returns the first SEND or RECV without its other end, or nothing.
std::optional<std::string> lone_transfer(const Program& program) {
  std::map<StageMessage, std::int32_t> ends;
  for (const std::vector<Action>& list : program.ranks) {
    for (const Action& action : list) {
      if (is_transfer(action.kind)) ends[message_of(action)] += is_send(action.kind) ? 1 : 10;
    }
  }
  for (const auto& [message, sum] : ends) {
    if (sum != 11) return to_text(sum % 10 == 0 ? recv_of(message) : send_of(message));
  }
  return std::nullopt;
}

/// The times of the compute groups and messages of a result.
struct MeasuredTimes {
  std::vector<Ns> start;  // start of each position
  std::vector<Ns> end;
  std::vector<Ns> message_start;
  std::vector<Ns> message_released;
  std::vector<Ns> message_end;
};

MeasuredTimes measured_times(const FlatProgram& flat, const Result& result) {
  MeasuredTimes times{.start = std::vector<Ns>(flat.ops.size(), 0),
                      .end = std::vector<Ns>(flat.ops.size(), 0),
                      .message_start = std::vector<Ns>(flat.messages.size(), 0),
                      .message_released = std::vector<Ns>(flat.messages.size(), kNotReleased),
                      .message_end = std::vector<Ns>(flat.messages.size(), 0)};
  std::size_t position = 0;
  // The positions of a flat program without barriers are the spans, rank by rank.
  for (const Spans& of_rank : spans_by_rank(result.timeline)) {
    for (const Span& span : of_rank) {
      times.start[position] = span.start_ns;
      times.end[position] = span.end_ns;
      if (const std::int32_t message = flat.message[position]; message != kNone) {
        const bool starts = !is_recv(span.action.kind);
        Ns& start = times.message_start[index(message)];
        if (starts) start = std::max(start, span.start_ns);
        Ns& end = times.message_end[index(message)];
        end = std::max(end, span.end_ns);
        if (is_send(span.action.kind)) times.message_released[index(message)] = span.released_ns;
      }
      ++position;
    }
  }
  return times;
}

/// Sets the costs of the nodes from the spans. The time from a node's latest input to its start becomes its
/// lag. The lag is negative if clocks differ, so that the input seems to have come after the start.
void take_times(CausedRun& run, const Result& result) {
  const MeasuredTimes times = measured_times(run.flat, result);
  const std::size_t messages = run.flat.messages.size();
  run.durations = {.compute = std::vector<Ns>(run.flat.ops.size(), 0),
                   .hold = std::vector<Ns>(messages, 0),
                   .latency = std::vector<Ns>(messages, 0),
                   .hold_alone = {}};
  for (std::size_t p = 0; p < run.flat.ops.size(); ++p) {
    if (run.flat.ops[p] == FlatOp::compute) run.durations.compute[p] = times.end[p] - times.start[p];
  }
  for (std::size_t id = 0; id < messages; ++id) {
    // The end of a RECV may be earlier than the start of its SEND if clocks differ.
    const Ns end = std::max(times.message_start[id], times.message_end[id]);
    // The channel of a measured message is not known, so that all of its time counts as latency.
    const Ns released = std::clamp(times.message_released[id], times.message_start[id], end);
    const bool is_transfer = run.flat.messages[id].recv != kNone;
    run.durations.hold[id] = is_transfer ? released - times.message_start[id] : end - times.message_start[id];
    run.durations.latency[id] = is_transfer ? end - released : 0;
  }
  run.durations.hold_alone = run.durations.hold;
  run.costs = graph_costs(run.graph, run.flat, run.program.placement, run.durations);

  const auto start_of = [&](CauseNode node) {
    const auto subject = static_cast<std::size_t>(run.graph.subjects[node]);
    const NodeKind kind = run.graph.kinds[node];
    return kind == NodeKind::compute || kind == NodeKind::step ? times.start[subject]
                                                               : times.message_start[subject];
  };
  run.costs.lag.assign(run.graph.size(), 0);
  std::vector<Ns> moments(2 * run.graph.size(), 0);
  for (CauseNode node = 0; node < run.graph.size(); ++node) {
    Ns latest = 0;
    for (std::uint32_t i = run.graph.first_input[node]; i < run.graph.first_input[node + 1]; ++i)
      latest = std::max(latest, moments[run.graph.inputs[i]]);
    const Ns start = node == run.graph.finish() ? latest : start_of(node);
    run.costs.lag[node] = start - latest;
    const NodeCost& cost = run.costs.nodes[node];
    moments[end_of(node)] = start + cost.ideal_ns + cost.added_ns[0] + cost.added_ns[1] + cost.added_ns[2];
    moments[release_of(node)] = start + cost.added_ns[0] + cost.added_ns[1];
  }
  if (std::ranges::all_of(run.costs.lag, [](Ns lag) { return lag == 0; })) run.costs.lag.clear();
}

}  // namespace

tl::expected<CausedRun, std::string> caused_run(const Result& result) {
  if (result.timeline.spans.empty()) {
    return tl::unexpected(std::string(
        "has no timeline, which an explanation needs; `simulate --timeline` and `run --timeline` write one"));
  }
  if (auto fault = timeline_fault(result.timeline))
    return tl::unexpected(fmt::format("timeline: {}", *fault));
  CausedRun run;
  run.program = listed_program(result);
  run.channels = {.model = enum_of_text<ChannelModel>(result.channel).value_or(ChannelModel::directed),
                  .blocking = result.transfers.blocking,
                  .capacity = result.transfers.capacity,
                  .launch_order = result.transfers.launch_order};
  if (const auto lone = lone_transfer(run.program)) {
    return tl::unexpected(fmt::format(
        "timeline: expected each SEND to have its RECV, got {} alone; was the run interrupted?", *lone));
  }
  // A result does not have the sizes of messages. If the run had an eager size, all messages count as eager,
  // so that none waits for its receiver.
  const CostTable costs = uniform_costs(run.program, {});
  run.channels.eager_bytes = result.transfers.eager_bytes > 0 ? 1 : 0;
  run.flat = flatten(run.program, costs, {.channels = run.channels});
  auto graph = cause_graph(run.flat, run.channels);
  if (!graph)
    return tl::unexpected(std::string("timeline: its lists hang, so they cannot be those of the run"));
  run.graph = *std::move(graph);
  take_times(run, result);
  // The lower bound of the makespan is computed for each iteration. The program therefore needs the run's
  // number of iterations.
  const std::int32_t iterations = std::max(1, result.program.iterations);
  if (run.program.microbatches % iterations == 0 && run.program.microbatches >= iterations) {
    run.program.iterations = iterations;
    run.program.microbatches /= iterations;
  }
  return run;
}

namespace {

/// Returns true if the result has more actions than a page shows.
bool is_beyond_page(const Result& result) {
  const auto computes = [](const Span& span) { return is_compute(span.action.kind); };
  return std::ranges::count_if(result.timeline.spans, computes) >
         static_cast<std::ptrdiff_t>(kMostViewedActions);
}

/// Returns true if the spans of the result show the causes of all its waits.
bool shows_causes(const Result& result) {
  return result.link_sharing != LinkSharing::counted && result.transfers == TransferReport{};
}

}  // namespace

std::optional<Explanation> explanation_for_page(const Result& result) {
  if (is_beyond_page(result)) return std::nullopt;
  const auto run = caused_run(result);
  if (!run) return std::nullopt;
  return explained(*run);
}

std::optional<Explanation> explanation_for_page(const Result& result, const Scenario& scenario,
                                                Engine engine) {
  if (shows_causes(result)) return explanation_for_page(result);
  if (is_beyond_page(result)) return std::nullopt;
  const auto experiment = prepare(scenario);
  if (!experiment) return std::nullopt;
  const auto run = caused_run(*experiment, engine);
  if (!run) return std::nullopt;
  return explained(*run);
}

}  // namespace penstock
