// Combines a recorded step with the lowered program that ran. The graph of causes is that of the list walk.
// Its channels depend on an assumption about how ranks wait (Waiting). Under `batched`, a rank posts all
// messages between two actions together:
//
//   rank 0   0F1 |0SEND_F1 0RECV_B0|.......| 0B0     a message starts when both of its groups are posted,
//   rank 1       1F0 |1SEND_B0 1RECV_F1| 1F1         and an action waits for all messages of its group
//
// Missing times are estimated. A message starts when its producer ends, unless its recorded SEND starts
// later. If the consumer waited for the message, it arrived when its RECV ended. Otherwise its arrival is not
// known, and it takes as long as the quickest message between the same two ranks. Tests:
// tests/sim/autopsy_test.cpp.

#include "sim/autopsy/autopsy.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "sim/autopsy/recording.hpp"
#include "sim/why/account.hpp"
#include "sim/why/explain.hpp"

namespace penstock {
namespace {

/// Returns the numbers that identify an action on its rank.
Action key_of(const Action& action) {
  return {.kind = action.kind, .stage = action.stage, .microbatch = action.microbatch, .peer = action.peer};
}

/// The positions of the SEND and the RECV of each message in the lists of the two ranks. A position is the
/// number of compute groups that the rank starts before it posts the message.
struct Posts {
  std::vector<std::int32_t> at_sender;
  std::vector<std::int32_t> at_receiver;
};

/// Returns, for each rank, the positions of its compute groups in the flat program. A compute group is one
/// compute action, or several that overlap.
std::vector<std::vector<std::int32_t>> compute_groups_of(const FlatProgram& flat) {
  std::vector<std::vector<std::int32_t>> groups(index(flat.rank_count));
  for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) {
    for (std::int32_t p = flat.rank_begin[index(rank)]; p < flat.rank_begin[index(rank) + 1]; ++p) {
      if (flat.ops[index(p)] == FlatOp::compute) groups[index(rank)].push_back(p);
    }
  }
  return groups;
}

/// The start and end times of a recorded step. They are indexed by the positions in the flat program.
class RecordedTimes {
 public:
  RecordedTimes(const RecordedStep& step, const FlatProgram& flat, Waiting waiting)
      : step_(step), flat_(flat), waiting_(waiting), groups_(compute_groups_of(flat)) {
    start_.assign(flat.ops.size(), 0);
    end_.assign(flat.ops.size(), 0);
    group_.assign(flat.ops.size(), kNone);
    consumer_.assign(flat.messages.size(), kNone);
    send_.assign(flat.messages.size(), nullptr);
    recv_.assign(flat.messages.size(), nullptr);
    is_joined_.assign(flat.messages.size(), false);
    message_start_.assign(flat.messages.size(), 0);
    latency_.assign(flat.messages.size(), 0);
    take_compute();
    take_messages();
    take_collectives();
    is_rendezvous_ = sends_wait_for_receives();
    find_message_times();
    if (waiting == Waiting::batched) wait_for_last_messages();
  }

  Ns start(std::int32_t position) const { return start_[index(position)]; }
  Ns end(std::int32_t position) const { return end_[index(position)]; }
  Ns duration(std::int32_t position) const { return end(position) - start(position); }
  /// Returns the start of a message or collective. Returns nothing if no rank has recorded it. Such a message
  /// starts as soon as its causes allow.
  std::optional<Ns> message_start(std::size_t id) const {
    if (send_[id] == nullptr && recv_[id] == nullptr && !is_joined_[id]) return std::nullopt;
    return message_start_[id];
  }
  Ns estimated_start(std::size_t id) const { return message_start_[id]; }
  Ns latency(std::size_t id) const { return latency_[id]; }

 private:
  /// Copies the recorded times of compute actions to the positions of the flat program. A STEP that was not
  /// recorded takes no time.
  void take_compute() {
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      std::map<Action, const RecordedAction*> recorded;
      for (const RecordedAction& one : step_.lists[index(rank)]) recorded.emplace(key_of(one.action), &one);
      Ns latest = 0;
      std::int32_t group = -1;
      for (std::int32_t p = flat_.rank_begin[index(rank)]; p < flat_.rank_begin[index(rank) + 1]; ++p) {
        const FlatOp op = flat_.ops[index(p)];
        if (op == FlatOp::compute) ++group;
        if (op != FlatOp::compute && op != FlatOp::leaf) continue;
        const auto found = recorded.find(key_of(flat_.actions[index(p)]));
        start_[index(p)] = found == recorded.end() ? latest : found->second->start_ns;
        end_[index(p)] = found == recorded.end() ? latest : found->second->end_ns;
        group_[index(p)] = group;
        if (found == recorded.end()) unrecorded_.push_back(p);
        latest = std::max(latest, end_[index(p)]);
      }
    }
  }

  void take_messages() {
    for (std::int32_t p = 0; p < flat_.position_count(); ++p) {
      if (flat_.ops[index(p)] != FlatOp::compute) continue;
      for (std::int32_t w = flat_.next_wait[index(p)]; w != kNone; w = flat_.next_wait[index(w)])
        consumer_[index(flat_.message[index(w)])] = p;
    }
    posts_.at_sender.resize(flat_.messages.size());
    posts_.at_receiver.resize(flat_.messages.size());
    std::vector<std::map<Action, const RecordedAction*>> transfers(step_.lists.size());
    for (std::size_t rank = 0; rank < transfers.size(); ++rank) {
      for (const RecordedAction& one : step_.lists[rank]) {
        if (is_transfer(one.action.kind)) transfers[rank].emplace(key_of(one.action), &one);
      }
    }
    const auto recorded_end = [&](std::int32_t rank, std::int32_t position) -> const RecordedAction* {
      const auto found = transfers[index(rank)].find(key_of(flat_.actions[index(position)]));
      return found == transfers[index(rank)].end() ? nullptr : found->second;
    };
    for (std::size_t id = 0; id < flat_.messages.size(); ++id) {
      const FlatMessage& message = flat_.messages[id];
      if (is_collective(id)) continue;
      send_[id] = recorded_end(message.from_rank, message.first);
      recv_[id] = recorded_end(message.to_rank, message.recv);
      const std::int32_t behind = group_[index(message.producer)] + 1;
      const std::int32_t before = group_[index(consumer_[id])];
      posts_.at_sender[id] =
          send_[id] == nullptr ? behind : std::max(behind, groups_before(message.from_rank, *send_[id]));
      posts_.at_receiver[id] =
          recv_[id] == nullptr ? before : std::min(before, groups_before(message.to_rank, *recv_[id]));
    }
  }

  bool is_collective(std::size_t id) const { return flat_.messages[id].recv == kNone; }

  /// Sets the times of collectives, which are the reductions across copies. A collective starts when its last
  /// rank starts it. If no rank has recorded it, it takes no time. A STEP that was not recorded waits for it.
  // NOLINTNEXTLINE(readability-function-cognitive-complexity): two loops over the ranks share their state
  void take_collectives() {
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      std::map<Action, const RecordedAction*> recorded;
      for (const RecordedAction& one : step_.lists[index(rank)]) {
        if (one.action.kind == ActionKind::reduce_grad) recorded.emplace(key_of(one.action), &one);
      }
      Ns latest = 0;
      for (std::int32_t p = flat_.rank_begin[index(rank)]; p < flat_.rank_begin[index(rank) + 1]; ++p) {
        latest = std::max(latest, end_[index(p)]);
        if (flat_.ops[index(p)] != FlatOp::collective) continue;
        const std::size_t id = index(flat_.message[index(p)]);
        const auto found = recorded.find(key_of(flat_.actions[index(p)]));
        const Ns end = message_start_[id] + latency_[id];
        message_start_[id] =
            std::max(message_start_[id], found == recorded.end() ? latest : found->second->start_ns);
        latency_[id] =
            std::max(end, found == recorded.end() ? latest : found->second->end_ns) - message_start_[id];
        is_joined_[id] = is_joined_[id] || found != recorded.end();
      }
    }
    for (std::size_t id = 0; id < latency_.size(); ++id) {
      if (!is_joined_[id]) latency_[id] = 0;
    }
    for (const std::int32_t position : unrecorded_) {
      for (std::int32_t w = flat_.next_wait[index(position)]; w != kNone; w = flat_.next_wait[index(w)]) {
        const std::size_t id = index(flat_.message[index(w)]);
        if (!is_collective(id)) continue;
        start_[index(position)] = std::max(start_[index(position)], message_start_[id] + latency_[id]);
        end_[index(position)] = start_[index(position)];
      }
    }
  }

  /// Returns the number of compute groups that a rank started before a SEND or RECV.
  std::int32_t groups_before(std::int32_t rank, const RecordedAction& transfer) const {
    const std::vector<std::int32_t>& groups = groups_[index(rank)];
    const auto behind = std::ranges::upper_bound(groups, transfer.start_ns, {},
                                                 [&](std::int32_t position) { return start(position); });
    return static_cast<std::int32_t>(behind - groups.begin());
  }

  /// Returns true if nearly all SENDs ended after their RECVs began, as in transports without buffers.
  bool sends_wait_for_receives() const {
    std::int64_t waiting = 0;
    std::int64_t all = 0;
    for (std::size_t id = 0; id < send_.size(); ++id) {
      if (send_[id] == nullptr || recv_[id] == nullptr) continue;
      ++all;
      if (send_[id]->end_ns >= recv_[id]->start_ns) ++waiting;
    }
    return waiting * 20 >= all * 19;
  }

  /// Returns the end of the compute group before the group number `group` of a rank. Returns 0 for the first
  /// group.
  Ns end_before(std::int32_t rank, std::int32_t group) const {
    return group <= 0 ? 0 : end(groups_[index(rank)][index(group) - 1]);
  }

  Ns begin_of(std::size_t id) const {
    const FlatMessage& message = flat_.messages[id];
    Ns begin = end(message.producer);
    if (send_[id] != nullptr) begin = std::max(begin, send_[id]->start_ns);
    if (recv_[id] != nullptr && (is_rendezvous_ || waiting_ == Waiting::batched))
      begin = std::max(begin, recv_[id]->start_ns);
    if (waiting_ == Waiting::batched) {
      begin = std::max({begin, end_before(message.from_rank, posts_.at_sender[id]),
                        end_before(message.to_rank, posts_.at_receiver[id])});
    }
    return begin;
  }

  void find_message_times() {
    std::vector<bool> is_known(flat_.messages.size(), false);
    std::map<std::pair<std::int32_t, std::int32_t>, Ns> quickest;
    Ns quickest_of_all = std::numeric_limits<Ns>::max();
    // A link is assumed to be equally fast in both directions.
    const auto pair_of = [](const FlatMessage& message) {
      return std::pair<std::int32_t, std::int32_t>(std::minmax(message.from_rank, message.to_rank));
    };
    for (std::size_t id = 0; id < latency_.size(); ++id) {
      if (is_collective(id)) continue;
      const FlatMessage& message = flat_.messages[id];
      message_start_[id] = begin_of(id);
      const std::int32_t consumer = consumer_[id];
      const Ns busy_until = end_before(message.to_rank, group_[index(consumer)]);
      const Ns ended = recv_[id] == nullptr ? start(consumer) : std::min(recv_[id]->end_ns, start(consumer));
      // If the rank was busy until this time, it did not wait. The message may have arrived at any earlier
      // time, so its latency is not known.
      if (ended <= busy_until || ended < message_start_[id]) continue;
      latency_[id] = ended - message_start_[id];
      // Without a recorded RECV, it is not known if the consumer waited for this message or for another one.
      is_known[id] = recv_[id] != nullptr;
      const auto [entry, is_new] = quickest.try_emplace(pair_of(message), latency_[id]);
      entry->second = std::min(entry->second, latency_[id]);
      quickest_of_all = std::min(quickest_of_all, latency_[id]);
    }
    for (std::size_t id = 0; id < latency_.size(); ++id) {
      if (is_known[id] || is_collective(id)) continue;
      const auto found = quickest.find(pair_of(flat_.messages[id]));
      const Ns of_all = quickest.empty() ? 0 : quickest_of_all;
      latency_[id] = found == quickest.end() ? of_all : found->second;
    }
  }

  /// Sets the start of each STEP that was not recorded. Such a STEP waits for the messages after the last
  /// pass of its rank.
  void wait_for_last_messages() {
    for (std::size_t id = 0; id < latency_.size(); ++id) {
      const Ns arrival = message_start_[id] + latency_[id];
      for (const std::int32_t position : unrecorded_) {
        const FlatMessage& message = flat_.messages[id];
        if (is_collective(id)) continue;
        const std::int32_t rank = flat_.rank_of(position);
        if (rank != message.from_rank && rank != message.to_rank) continue;
        start_[index(position)] = std::max(start_[index(position)], arrival);
        end_[index(position)] = start_[index(position)];
      }
    }
  }

  const RecordedStep& step_;
  const FlatProgram& flat_;
  Waiting waiting_;
  bool is_rendezvous_ = false;
  std::vector<std::vector<std::int32_t>> groups_;
  std::vector<Ns> start_;  // start of each position
  std::vector<Ns> end_;
  std::vector<std::int32_t> unrecorded_;  // positions of STEPs that the step lacks
  std::vector<std::int32_t> group_;       // number of the compute group on its rank, by position
  std::vector<std::int32_t> consumer_;    // position of the action that waits for the message, by message
  std::vector<const RecordedAction*> send_;
  std::vector<const RecordedAction*> recv_;
  std::vector<bool> is_joined_;  // true for each collective that a rank has recorded, by message
  std::vector<Ns> message_start_;
  std::vector<Ns> latency_;
  Posts posts_;
};

/// Sets the lag of each node in the cause graph: the time from its latest input to its recorded start.
/// Returns the sum of the absolute values of the lags. Nodes without inputs do not count.
Ns take_lags(CausedRun& run, const RecordedTimes& times) {
  const CauseGraph& graph = run.graph;
  run.costs.lag.assign(graph.size(), 0);
  std::vector<Ns> moments(2 * graph.size(), 0);
  Ns unexplained = 0;
  for (CauseNode node = 0; node < graph.size(); ++node) {
    Ns latest = 0;
    for (std::uint32_t i = graph.first_input[node]; i < graph.first_input[node + 1]; ++i)
      latest = std::max(latest, moments[graph.inputs[i]]);
    Ns start = latest;
    Ns duration = 0;
    const std::int32_t subject = graph.subjects[node];
    if (graph.kinds[node] == NodeKind::transfer || graph.kinds[node] == NodeKind::collective) {
      start = times.message_start(index(subject)).value_or(latest);
      duration = times.latency(index(subject));
    } else if (graph.kinds[node] != NodeKind::finish) {
      start = times.start(subject);
      duration = times.duration(subject);
    }
    run.costs.lag[node] = start - latest;
    if (graph.first_input[node] < graph.first_input[node + 1]) unexplained += std::abs(start - latest);
    moments[end_of(node)] = start + duration;
    moments[release_of(node)] = start;
  }
  return unexplained;
}

/// Returns the spans of all ranks with the times `times`, in the order of the ranks' lists. A message has one
/// span at its sender and one at its receiver.
Timeline timeline_of_step(const FlatProgram& flat, const Placement& placement, const RecordedTimes& times) {
  ProgramTimes known = empty_times(flat);
  for (std::int32_t p = 0; p < flat.position_count(); ++p) {
    known.start[index(p)] = times.start(p);
    known.end[index(p)] = times.end(p);
  }
  for (std::size_t id = 0; id < flat.messages.size(); ++id) {
    known.message_start[id] = times.estimated_start(id);
    known.message_end[id] = times.estimated_start(id) + times.latency(id);
  }
  return timeline_of(flat, placement, known);
}

}  // namespace

Program program_of(const Recording& recording, const RecordedStep& step) {
  Program program{.schedule = "recorded", .microbatches = recording.microbatches};
  program.ranks.resize(step.lists.size());
  program.placement.stages.resize(index(recording.stages));
  std::vector<std::map<std::int32_t, std::int32_t>> rank_of(
      index(recording.stages));  // the rank that runs the stage for each microbatch
  for (std::size_t rank = 0; rank < step.lists.size(); ++rank) {
    for (const RecordedAction& recorded : step.lists[rank]) {
      if (!is_compute(recorded.action.kind)) continue;
      program.ranks[rank].push_back(recorded.action);
      if (recorded.action.kind != ActionKind::forward) continue;
      rank_of[index(recorded.action.stage)][recorded.action.microbatch] = static_cast<std::int32_t>(rank);
    }
  }
  for (std::size_t stage = 0; stage < rank_of.size(); ++stage) {
    StagePlacement& placement = program.placement.stages[stage];
    placement.route.clear();
    for (const auto& [microbatch, rank] : rank_of[stage]) {
      if (std::ranges::find(placement.ranks, rank) == placement.ranks.end()) placement.ranks.push_back(rank);
    }
    std::ranges::sort(placement.ranks);
    for (const auto& [microbatch, rank] : rank_of[stage]) {
      placement.route.push_back(
          static_cast<std::int32_t>(std::ranges::find(placement.ranks, rank) - placement.ranks.begin()));
    }
    if (placement.ranks.size() == 1) placement.route.assign(1, 0);
  }
  return program;
}

ChannelOptions channels_of(Waiting waiting) {
  return {.blocking = waiting == Waiting::batched ? Blocking::batched : Blocking::none};
}

std::optional<RecordedRun> recorded_run(const RecordedStep& step, const Program& lowered, Waiting waiting) {
  RecordedRun run;
  run.caused.program = lowered;
  run.caused.channels = channels_of(waiting);
  run.caused.flat =
      flatten(lowered, uniform_costs(lowered, {}), {.channels = run.caused.channels, .iterations = 1});
  const FlatProgram& flat = run.caused.flat;
  const RecordedTimes times(step, flat, waiting);
  auto graph = cause_graph(flat, run.caused.channels);
  if (!graph) return std::nullopt;
  run.caused.graph = *std::move(graph);
  RealDurations& durations = run.caused.durations;
  durations = {.compute = std::vector<Ns>(flat.ops.size(), 0),
               .hold = std::vector<Ns>(flat.messages.size(), 0),
               .latency = std::vector<Ns>(flat.messages.size(), 0),
               .hold_alone = std::vector<Ns>(flat.messages.size(), 0)};
  for (std::int32_t p = 0; p < flat.position_count(); ++p) {
    if (flat.ops[index(p)] == FlatOp::compute) durations.compute[index(p)] = times.duration(p);
  }
  for (std::size_t id = 0; id < flat.messages.size(); ++id) durations.latency[id] = times.latency(id);
  run.caused.costs = graph_costs(run.caused.graph, flat, lowered.placement, durations);
  run.unexplained_ns = take_lags(run.caused, times);
  run.timeline = timeline_of_step(flat, lowered.placement, times);
  return run;
}

namespace {

/// The first start and the last end of the compute actions in each copy of the pipeline.
class CopySpans {
 public:
  explicit CopySpans(std::int32_t copies)
      : first_(index(copies), std::numeric_limits<Ns>::max()), last_(index(copies), 0) {}

  void add(std::size_t rank, Ns start, Ns end) {
    const std::size_t copy = rank % first_.size();
    first_[copy] = std::min(first_[copy], start);
    last_[copy] = std::max(last_[copy], end);
  }
  CopyTimes times() const {
    CopyTimes times;
    for (std::size_t copy = 0; copy < first_.size(); ++copy)
      times.push_back(std::max<Ns>(0, last_[copy] - first_[copy]));
    return times;
  }

 private:
  std::vector<Ns> first_;
  std::vector<Ns> last_;
};

/// Replaces the duration of each compute action by the mean of all actions of the same kind. If `of_stage` is
/// true, only actions of the same kind, stage and rank count.
void take_means(CausedRun& run, bool of_stage) {
  std::map<std::pair<std::vector<ActionKind>, std::vector<std::int32_t>>, std::pair<Ns, std::int64_t>> sums;
  const auto key = [&](CauseNode node) {
    std::pair<std::vector<ActionKind>, std::vector<std::int32_t>> one;
    const std::int32_t begin = run.graph.subjects[node];
    for (std::int32_t p = begin; p < run.flat.group_end(begin); ++p) {
      one.first.push_back(run.flat.actions[index(p)].kind);
      if (of_stage) one.second.push_back(run.flat.actions[index(p)].stage);
    }
    if (of_stage) one.second.push_back(run.graph.ranks[node]);
    return one;
  };
  for (CauseNode node = 0; node < run.graph.size(); ++node) {
    if (run.graph.kinds[node] != NodeKind::compute) continue;
    auto& [sum, count] = sums[key(node)];
    sum += run.durations.compute[index(run.graph.subjects[node])];
    ++count;
  }
  for (CauseNode node = 0; node < run.graph.size(); ++node) {
    if (run.graph.kinds[node] != NodeKind::compute) continue;
    const auto& [sum, count] = sums[key(node)];
    run.costs.nodes[node] = {.ideal_ns = sum / count};
  }
}

}  // namespace

CopyTimes recorded_times(const Recording& recording, const RecordedStep& step) {
  CopySpans spans(recording.copies);
  for (std::size_t rank = 0; rank < step.lists.size(); ++rank) {
    for (const RecordedAction& one : step.lists[rank]) {
      if (has_weight_version(one.action.kind)) spans.add(rank, one.start_ns, one.end_ns);
    }
  }
  return spans.times();
}

CopyTimes replayed_times(const Recording& recording, const RecordedRun& run, Replayed how) {
  CausedRun changed{.flat = run.caused.flat,
                    .graph = run.caused.graph,
                    .durations = run.caused.durations,
                    .costs = run.caused.costs};
  for (CauseNode node = 0; node < changed.graph.size(); ++node) {
    // Actions without inputs keep their recorded starts. No other action starts before its latest cause.
    const bool begins = changed.graph.first_input[node] == changed.graph.first_input[node + 1];
    Ns& lag = changed.costs.lag[node];
    lag = begins || how == Replayed::as_recorded ? std::max<Ns>(0, lag) : 0;
  }
  if (how == Replayed::with_stage_means || how == Replayed::with_kind_means)
    take_means(changed, how == Replayed::with_stage_means);
  GraphTimes times(changed.graph, changed.costs);
  times.compute(RealParts::all(1, 1));
  CopySpans spans(recording.copies);
  for (CauseNode node = 0; node < changed.graph.size(); ++node) {
    if (changed.graph.kinds[node] != NodeKind::compute) continue;
    spans.add(index(changed.graph.ranks[node]), times.start(node), times.moments()[end_of(node)]);
  }
  return spans.times();
}

}  // namespace penstock
