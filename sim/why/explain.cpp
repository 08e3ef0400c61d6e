// Explains a run in four steps. It runs the program, builds the graph of causes, divides the idle time
// among causes (account.hpp), and writes down each interval, each rank and the bill. The bill divides the
// idle time of the ideal run in another way than the lines of the ranks. Fill and drain are the idle time
// that every order of the same actions needs. Order is the idle time that the order of the lists adds.
// Tests: tests/sim/why_test.cpp.

#include "sim/why/explain.hpp"

#include <algorithm>
#include <array>
#include <cmath>
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

#include "report/why/explanation.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/launch_lists.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/network/message_costs.hpp"
#include "sim/why/account.hpp"

namespace penstock {
namespace {

// --- from an experiment
// -------------------------------------------------------------------------------------

/// Returns the durations of a run. If links were shared, messages held their channels for longer than
/// alone, and this time is included.
RealDurations real_durations(const Experiment& experiment, const EngineRun& run) {
  WalkDurations alone = walk_durations(experiment, run.flat);
  RealDurations real{.compute = std::move(alone.compute),
                     .hold = std::vector<Ns>(alone.hold.size()),
                     .latency = std::move(alone.latency),
                     .hold_alone = std::move(alone.hold),
                     .launch = alone.launch};
  for (std::size_t id = 0; id < real.hold.size(); ++id)
    real.hold[id] = run.times.message_end[id] - run.times.message_start[id] - real.latency[id];
  return real;
}

/// Returns the makespan of the ideal run with another program and other channels, for example without a
/// barrier. The order of the compute actions is that of `run`.
Ns ideal_makespan(const CausedRun& run, const Program& program, const ChannelOptions& channels,
                  const CostTable& costs) {
  FlatProgram flat = flatten(program, costs, {.channels = channels, .iterations = program.iterations});
  WalkDurations ideal;
  ideal.compute.assign(flat.ops.size(), 0);
  // The two programs differ only in their barriers, so the n-th compute group is the same in both.
  std::vector<Ns> durations;
  for (std::size_t p = 0; p < run.flat.ops.size(); ++p) {
    if (run.flat.ops[p] == FlatOp::compute)
      durations.push_back(run.costs.nodes[run.graph.of_position[p]].ideal_ns);
  }
  std::size_t next = 0;
  for (std::size_t p = 0; p < flat.ops.size(); ++p) {
    if (flat.ops[p] == FlatOp::compute) ideal.compute[p] = durations[next++];
  }
  const auto times = walk(flat, ideal, channels);
  // If a rule is taken away, the program does not hang. If it did hang, the result 0 would assign the time of
  // the rule to the order.
  return times ? last_end(*times) : 0;
}

/// Returns a line of the bill for each rule of the run that can delay it, such as a barrier or blocking
/// transfers. They are in the order in which the rules are taken away.
std::vector<BillLine> rule_lines(const CausedRun& run, const CostTable& costs) {
  std::vector<BillLine> lines;
  Program program = run.program;
  ChannelOptions channels = run.channels;
  const bool has_barrier = program.barrier && program.iterations > 1;
  if (!has_barrier && !channels.waits() && channels.capacity == 0 && !has_launch_order(channels))
    return lines;
  // A launch order has no effect while ranks wait for their transfers. Without this line, it would have an
  // effect when the blocking is taken away below.
  channels.launch_order = has_launch_order(channels);
  Ns with = ideal_makespan(run, program, channels, costs);
  const auto take_away = [&](const char* rule) {
    const Ns without = ideal_makespan(run, program, channels, costs);
    lines.push_back({.cause = rule, .idle_ns = (with - without) * run.flat.rank_count});
    with = without;
  };
  if (has_barrier) {
    program.barrier = false;
    take_away("barrier");
  }
  if (channels.waits()) {
    channels.blocking = Blocking::none;
    take_away("blocking");
  }
  if (channels.capacity > 0) {
    channels.capacity = 0;
    take_away("capacity");
  }
  if (channels.launch_order) {
    channels.launch_order = false;
    take_away("launch order");
  }
  return lines;
}

// --- the explanation
// ----------------------------------------------------------------------------------------

std::size_t number_of(IdleCause cause) { return static_cast<std::size_t>(cause); }

/// Returns the name of the item to which the cost of a node belongs. An item is a part of a cause, such as
/// "stage 2" or "rank 3".
std::string item_of(const CausedRun& run, CauseNode node, IdleCause cause) {
  const std::int32_t subject = run.graph.subjects[node];
  switch (run.graph.kinds[node]) {
    case NodeKind::compute:
    case NodeKind::step: {
      const Action& action = run.flat.actions[index(subject)];
      if (cause == IdleCause::slow_rank || cause == IdleCause::launch)
        return fmt::format("rank {}", run.graph.ranks[node]);
      std::string stages = fmt::format("stage {}", action.stage);
      for (std::int32_t p = subject + 1; p < run.flat.group_end(subject); ++p)
        stages += fmt::format(" with {}", run.flat.actions[index(p)].stage);
      return stages;
    }
    case NodeKind::transfer: {
      const FlatMessage& message = run.flat.messages[index(subject)];
      return fmt::format("{}>{}", message.from_rank, message.to_rank);
    }
    case NodeKind::collective:
      return fmt::format("stage {}", run.flat.actions[index(run.flat.messages[index(subject)].first)].stage);
    case NodeKind::copy:
    case NodeKind::launch:
    case NodeKind::resident:
      return fmt::format("rank {}", run.graph.ranks[node]);
    case NodeKind::barrier:
    case NodeKind::finish:
      break;
  }
  return "the end";
}

/// Returns a key that is equal for all nodes of one item. There are many nodes but few items, so the text of
/// an item is made once for each key and not for every node.
std::array<std::int32_t, 4> item_key(const CausedRun& run, CauseNode node, IdleCause cause) {
  const std::int32_t subject = run.graph.subjects[node];
  const std::int32_t rank = run.graph.ranks[node];
  const auto kind = static_cast<std::int32_t>(run.graph.kinds[node]);
  switch (run.graph.kinds[node]) {
    case NodeKind::compute:
    case NodeKind::step: {
      if (cause == IdleCause::slow_rank || cause == IdleCause::launch) return {0, rank, 0, 0};
      const std::int32_t leaves = run.flat.group_end(subject) - subject;
      // Two overlapped pairs may have the same first stage but different second stages.
      return {0, run.flat.actions[index(subject)].stage, run.flat.actions[index(subject + leaves - 1)].stage,
              leaves};
    }
    case NodeKind::transfer:
      return {kind, rank, run.flat.messages[index(subject)].to_rank, 0};
    case NodeKind::collective:
      return {kind, run.flat.actions[index(run.flat.messages[index(subject)].first)].stage, 0, 0};
    case NodeKind::copy:
    case NodeKind::barrier:
    case NodeKind::launch:
    case NodeKind::resident:
    case NodeKind::finish:
      break;
  }
  return {kind, rank, 0, 0};
}

/// The time that each item of a cause adds to the makespan.
class ItemSums {
 public:
  explicit ItemSums(const CausedRun& run) : run_(run) {}

  void add(IdleCause cause, CauseNode node, double time) {
    if (time == 0) return;
    const auto [entry, is_new] = sums_[number_of(cause)].try_emplace(item_key(run_, node, cause), node, 0.0);
    entry->second.second += time;
  }

  /// Returns the items of a cause, the largest first. Their times add up to `sum`.
  std::vector<CauseItem> items(IdleCause cause, Ns sum) const {
    std::map<std::string, double> by_name;
    for (const auto& [key, entry] : sums_[number_of(cause)])
      by_name[item_of(run_, entry.first, cause)] += entry.second;
    if (by_name.empty() && sum != 0) by_name["the end"] = 0;
    std::vector<double> parts;
    parts.reserve(by_name.size());
    for (const auto& [name, part] : by_name) parts.push_back(part);
    const std::vector<Ns> whole = rounded_parts(parts, sum);
    std::vector<CauseItem> items;
    std::size_t next = 0;
    for (const auto& [name, part] : by_name) {
      if (whole[next] != 0) items.push_back({name, whole[next]});
      ++next;
    }
    std::ranges::stable_sort(items, std::ranges::greater{},
                             [](const CauseItem& item) { return std::abs(item.makespan_ns); });
    return items;
  }

 private:
  const CausedRun& run_;
  std::array<std::map<std::array<std::int32_t, 4>, std::pair<CauseNode, double>>, kIdleCauses> sums_;
};

/// Divides each cause's part of the makespan among the items of the cause. `of_cause` has the part of each
/// cause. The items add up to it.
std::array<std::vector<CauseItem>, kIdleCauses> items_of(const CausedRun& run, const Account& account,
                                                         const CauseTimes& of_cause) {
  ItemSums sums(run);
  for (CauseNode node = 0; node < run.graph.size(); ++node) {
    const double to_end = account.moment_weights[end_of(node)];
    const double to_release = account.moment_weights[release_of(node)];
    if (to_end == 0 && to_release == 0) continue;
    const NodeCost& cost = run.costs.nodes[node];
    const auto causes = causes_of(run.graph.kinds[node]);
    for (std::size_t i = 0; i < causes.size(); ++i)
      sums.add(causes[i], node, to_end * static_cast<double>(cost.added_ns[i]));
    sums.add(IdleCause::queue, node, to_release * static_cast<double>(cost.added_ns[0] + cost.added_ns[1]));
    if (!run.costs.lag.empty())
      sums.add(IdleCause::launch, node, (to_end + to_release) * static_cast<double>(run.costs.lag[node]));
  }
  std::array<std::vector<CauseItem>, kIdleCauses> items;
  for (std::size_t c = 0; c < kIdleCauses; ++c) items[c] = sums.items(static_cast<IdleCause>(c), of_cause[c]);
  return items;
}

/// Returns the time that each cause adds to the work of all ranks together.
CauseTimes added_work(const CausedRun& run) {
  CauseTimes sums{};
  for (CauseNode node = 0; node < run.graph.size(); ++node) {
    const NodeKind kind = run.graph.kinds[node];
    if (kind != NodeKind::compute && kind != NodeKind::step) continue;
    const auto causes = causes_of(kind);
    for (std::size_t i = 0; i < causes.size(); ++i)
      sums[number_of(causes[i])] += run.costs.nodes[node].added_ns[i];
  }
  return sums;
}

/// Adds a line to the bill for each cause. A cause that the run does not have gets no line.
void add_cause_lines(Explanation& explanation, const CausedRun& run, const Account& account,
                     const ExplainOptions& options) {
  CauseTimes idle{};
  for (const IdlePart& part : account.parts) {
    for (std::size_t c = 0; c < kIdleCauses; ++c) idle[c] += part.causes[c];
  }
  const CauseTimes work = added_work(run);
  CauseTimes of_makespan{};
  for (std::size_t c = 0; c < kIdleCauses; ++c) of_makespan[c] = (idle[c] + work[c]) / run.flat.rank_count;
  const auto items = items_of(run, account, of_makespan);
  GraphTimes times(run.graph, run.costs);
  std::vector<BillLine> lines;
  for (std::size_t c = 0; c < kIdleCauses; ++c) {
    if (idle[c] == 0 && work[c] == 0 && items[c].empty()) continue;
    BillLine line{
        .cause = std::string(to_text(static_cast<IdleCause>(c))), .idle_ns = idle[c], .items = items[c]};
    if (options.alone) {
      RealParts parts = RealParts::all(1, 1);
      parts.of[c] = 0;
      line.without_ns = times.compute(parts);
      parts = RealParts::all(0, 1);
      parts.of[c] = 1;
      line.alone_ns = times.compute(parts);
    }
    lines.push_back(std::move(line));
  }
  std::ranges::stable_sort(lines, std::ranges::greater{}, &BillLine::idle_ns);
  explanation.bill.insert(explanation.bill.end(), lines.begin(), lines.end());
}

/// Adds the lines of the ideal run to the bill: fill and drain, then the rules, then the order of the
/// lists.
void add_ideal_lines(Explanation& explanation, const CausedRun& run, const Account& account) {
  const IdealBound bound = ideal_bound(run.graph, run.flat, run.program, run.costs);
  const Ns ranks = run.flat.rank_count;
  Ns rest = 0;
  for (const IdlePart& part : account.parts) rest += part.ideal_ns;
  explanation.ideal_ns = account.ideal_ns;
  explanation.bound_ns = bound.bound_ns;
  explanation.bill = {{.cause = "fill", .idle_ns = bound.head_ns * ranks},
                      {.cause = "drain", .idle_ns = bound.tail_ns * ranks}};
  explanation.bill.insert(explanation.bill.end(), run.rules.begin(), run.rules.end());
  for (const BillLine& line : explanation.bill) rest -= line.idle_ns;
  explanation.bill.push_back({.cause = "order", .idle_ns = rest});
}

bool is_listed(const IdlePart& part) {
  const bool has_parts =
      part.ideal_ns != 0 || std::ranges::any_of(part.causes, [](Ns ns) { return ns != 0; });
  return part.end_ns != part.start_ns || has_parts;
}

}  // namespace

tl::expected<CausedRun, Hang> caused_run(const Experiment& experiment, Engine engine) {
  auto ran = run_engine(experiment, engine);
  if (!ran) return tl::unexpected(std::move(ran.error()));
  CausedRun run{.program = experiment.program,
                .channels = experiment.channels,
                .durations = real_durations(experiment, *ran)};
  run.flat = std::move(ran->flat);
  // The engine has run the program, so its walk does not stall.
  run.graph = cause_graph(run.flat, run.channels).value();
  run.costs = graph_costs(run.graph, run.flat, run.program.placement, run.durations);
  run.rules = rule_lines(run, experiment.costs);
  return run;
}

Explanation explained(const CausedRun& run, const ExplainOptions& options) {
  const Account account = account_of(run.graph, run.flat, run.costs, options.samples);
  Explanation explanation;
  explanation.schedule = run.program.schedule;
  explanation.ranks = run.flat.rank_count;
  explanation.makespan_ns = account.makespan_ns;
  GraphTimes times(run.graph, run.costs);
  times.compute(RealParts::all(1, 1));
  std::optional<ReadyActions> ready;
  if (options.chains) ready.emplace(run.graph, run.flat, run.program, times);
  explanation.rank_idle.resize(index(run.flat.rank_count));
  for (const IdlePart& part : account.parts) {
    RankIdle& rank = explanation.rank_idle[index(part.rank)];
    rank.rank = part.rank;
    rank.idle_ns += part.end_ns - part.start_ns;
    rank.ideal[static_cast<std::size_t>(part.phase)] += part.ideal_ns;
    for (std::size_t c = 0; c < kIdleCauses; ++c) rank.causes[c] += part.causes[c];
    if (!is_listed(part)) continue;
    const bool ends = part.node == run.graph.finish();
    IdleInterval interval{.rank = part.rank,
                          .before = ends ? "" : group_text(run.flat, run.graph.subjects[part.node]),
                          .phase = part.phase,
                          .start_ns = part.start_ns,
                          .end_ns = part.end_ns,
                          .ideal_ns = part.ideal_ns,
                          .causes = part.causes};
    if (ready && part.end_ns > part.start_ns) {
      interval.chain = chain_of(run.graph, run.flat, times, part.node, part.start_ns);
      interval.ready = ready->behind(part);
    }
    explanation.intervals.push_back(std::move(interval));
  }
  explanation.stage_imbalance.assign(run.program.placement.stages.size(), 0);
  for (CauseNode node = 0; node < run.graph.finish(); ++node) {
    if (run.graph.kinds[node] != NodeKind::compute) continue;
    const std::int32_t stage = run.flat.actions[index(run.graph.subjects[node])].stage;
    explanation.stage_imbalance[index(stage)] += run.costs.nodes[node].added_ns[0];
  }
  for (const RankIdle& rank : explanation.rank_idle)
    explanation.busy_ns += explanation.makespan_ns - rank.idle_ns;
  explanation.critical_path = chain_of(run.graph, run.flat, times, run.graph.finish(), 0);
  add_ideal_lines(explanation, run, account);
  add_cause_lines(explanation, run, account, options);
  return explanation;
}

std::optional<MeanBill> bill_of_scenario(const Scenario& scenario) {
  if (compute_actions(scenario) > static_cast<double>(kMostExplained)) return std::nullopt;
  const auto experiment = prepare(scenario);
  if (!experiment) return std::nullopt;
  const auto run = caused_run(*experiment);
  if (!run) return std::nullopt;
  return mean_bill(explained(*run, {.chains = false, .alone = false}));
}

}  // namespace penstock
