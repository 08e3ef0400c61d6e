// Moves the microbatches of a failed rank to other ranks (Gandhi et al., "ReCycle", SOSP'24, arXiv
// 2405.14009, section 3.1). The copies of a pipeline hold the same weights. Any rank that holds a stage of
// the failed rank can therefore run its microbatches. In the example, 1F1B has 2 stages and 2 copies with 2
// microbatches each. Ranks 0 and 1 hold stage 0, and rank 3 fails:
//
//   rank 0   F0 F2       B0    B2          ->   rank 0   F0 F2       B0       B2
//   rank 1   F1 F3       B1    B3               rank 1   F1 F3          B1       B3
//   rank 2      F0 B0 F2 B2                     rank 2      F0 F1 B0 F2 B1 F3 ...
//   rank 3      F1 B1 F3 B3                     rank 3   (nothing)
//
// A rank merges its own list with the list that it takes over. A walk in time determines the order. The rank
// always runs the action that can start first. If two can start at the same time, it runs the one that
// started earlier before the failure. Moved actions therefore fill bubbles first, and only then delay the
// rank's own actions. All lists follow one order in time, so the ranks cannot hang. In the walk, a message
// takes only the time of its route. REDUCE_GRAD and STEP of a stage also wait for the moved backward passes.
// Tested by reroute_test.cpp.

#include "sim/risk/risk.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "scenarios/prepare/cut.hpp"  // IWYU pragma: keep (its members are read)
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/pricing/chain_costs.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/return_if_error.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "sim/network/message_costs.hpp"
#include "sim/runs/simulate.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

using Group = std::span<const Action>;

/// A list of actions that a rank runs in order. Its actions are read one at a time, but an overlapped pair is
/// read as a whole.
class Queue {
 public:
  Queue() = default;
  explicit Queue(std::vector<Action> actions) : actions_(std::move(actions)) {}

  bool is_done() const { return next_ == actions_.size(); }
  /// Returns the next action, or the next overlapped pair.
  Group head() const {
    std::size_t end = next_;
    while (actions_[end].overlaps_next) ++end;
    return Group(actions_).subspan(next_, end + 1 - next_);
  }
  void pop() { next_ += head().size(); }

 private:
  std::vector<Action> actions_;
  std::size_t next_ = 0;
};

/// The identity of a compute action: its kind, its stage, and its microbatch or slice.
using ActionKey = std::tuple<ActionKind, std::int32_t, std::int32_t>;
ActionKey action_key_of(const Action& action) { return {action.kind, action.stage, action.microbatch}; }

/// The start of each compute action, in ns.
using ActionStarts = std::map<ActionKey, Ns>;

/// A run of the queues of all ranks in the order of time. It merges the queues of each rank into one list.
class MergeWalk {
 public:
  /// Prepares the walk. `queues` has the queues of each rank: its own list, and the list that it takes over.
  /// `earlier` has the start of each action before the failure, or is empty.
  MergeWalk(const Experiment& experiment, const Program& program, std::vector<std::vector<Queue>> queues,
            const ActionStarts& earlier)
      : experiment_(experiment),
        program_(program),
        neighbours_(stage_neighbours(program)),
        edges_(experiment.program),
        transfers_(experiment),
        queues_(std::move(queues)),
        earlier_(earlier),
        choice_of_rank_(queues_.size()),
        free_ns_(queues_.size(), 0),
        lists_(queues_.size()) {
    for (std::size_t rank = 0; rank < queues_.size(); ++rank) count_weight_gradients(rank);
  }

  /// Runs all queues. Returns the merged action list of each rank, or nothing if the ranks wait for each
  /// other.
  std::optional<std::vector<std::vector<Action>>> lists() {
    for (std::size_t rank = 0; rank < queues_.size(); ++rank) refresh(rank);
    while (!choices_.empty()) run(*choices_.begin());
    const auto is_done = [](const std::vector<Queue>& of_rank) {
      return std::ranges::all_of(of_rank, &Queue::is_done);
    };
    if (!std::ranges::all_of(queues_, is_done)) return std::nullopt;
    return std::move(lists_);
  }
  const ActionStarts& starts() const { return starts_; }

 private:
  struct Choice {
    Ns start_ns = 0;
    Ns earlier_ns = 0;
    std::size_t rank = 0;
    std::size_t queue = 0;

    friend auto operator<=>(const Choice&, const Choice&) = default;
  };

  /// Counts, for each stage of the rank, the actions for which the stage's REDUCE_GRAD and STEP wait. They
  /// compute gradients of its weights.
  void count_weight_gradients(std::size_t rank) {
    for (Queue queue : queues_[rank]) {
      for (; !queue.is_done(); queue.pop()) {
        for (const Action& action : queue.head())
          if (makes_weight_gradient(action.kind)) ++open_[{rank, action.stage}];
      }
    }
  }

  /// Computes anew which group of actions the rank runs next.
  void refresh(std::size_t rank) {
    if (choice_of_rank_[rank]) choices_.erase(*choice_of_rank_[rank]);
    choice_of_rank_[rank] = best_of(rank);
    if (choice_of_rank_[rank]) choices_.insert(*choice_of_rank_[rank]);
  }

  std::optional<Choice> best_of(std::size_t rank) {
    std::optional<Choice> best;
    for (std::size_t queue = 0; queue < queues_[rank].size(); ++queue) {
      if (queues_[rank][queue].is_done()) continue;
      const Group head = queues_[rank][queue].head();
      const auto ready_ns = ready(head, rank);
      if (!ready_ns) continue;
      const auto known = earlier_.find(action_key_of(head.front()));
      const Choice choice{.start_ns = std::max(*ready_ns, free_ns_[rank]),
                          .earlier_ns = known == earlier_.end() ? 0 : known->second,
                          .rank = rank,
                          .queue = queue};
      if (!best || choice < *best) best = choice;
    }
    return best;
  }

  /// Returns the time from which all inputs of the group's actions are available. Returns nothing if this
  /// time is not known yet.
  std::optional<Ns> ready(Group group, std::size_t rank) {
    Ns ready_ns = 0;
    for (const Action& action : group) {
      const bool is_update = action.kind == ActionKind::reduce_grad || action.kind == ActionKind::step;
      if (is_update && open_[{rank, action.stage}] > 0) return std::nullopt;
      if (!is_compute(action.kind) || action.kind == ActionKind::step) continue;
      const auto inputs_ns = inputs(action, group);
      if (!inputs_ns) return std::nullopt;
      ready_ns = std::max(ready_ns, *inputs_ns);
    }
    return ready_ns;
  }

  std::optional<Ns> inputs(const Action& action, Group group) {
    Ns ready_ns = 0;
    const auto wait_for = [&](ActionKind kind) {
      const auto end = ends_.find({kind, action.stage, action.microbatch});
      const bool is_beside = std::ranges::any_of(group, [&](const Action& other) {
        return action_key_of(other) == ActionKey{kind, action.stage, action.microbatch};
      });
      if (end != ends_.end()) ready_ns = std::max(ready_ns, end->second);
      return end != ends_.end() || is_beside;
    };
    if (action.kind != ActionKind::forward && !wait_for(ActionKind::forward)) return std::nullopt;
    if (action.kind == ActionKind::backward_weight && !wait_for(ActionKind::backward_input))
      return std::nullopt;
    const auto flow = input_of(action.kind, program_.recompute);
    if (!flow) return ready_ns;
    for (const std::int32_t giver : givers_of(neighbours_, action.stage, *flow)) {
      const auto arrival_ns = arrival(giver, action, *flow);
      if (!arrival_ns) return std::nullopt;
      ready_ns = std::max(ready_ns, *arrival_ns);
    }
    return ready_ns;
  }

  /// Returns the time at which the output of stage `giver` is available to the action `taker`. Returns
  /// nothing if the output has not been computed yet.
  std::optional<Ns> arrival(std::int32_t giver, const Action& taker, Flow flow) {
    auto end = ends_.end();
    for (const ActionKind kind : {ActionKind::forward, ActionKind::backward, ActionKind::backward_input}) {
      if (output_of(kind) == flow && end == ends_.end()) end = ends_.find({kind, giver, taker.microbatch});
    }
    if (end == ends_.end()) return std::nullopt;
    const std::int32_t from = program_.placement.rank_of(giver, taker.microbatch);
    const std::int32_t to = program_.placement.rank_of(taker.stage, taker.microbatch);
    if (from == to) return end->second;
    const Action send{.kind = flow == Flow::activation ? ActionKind::send_forward : ActionKind::send_backward,
                      .stage = giver,
                      .microbatch = taker.microbatch,
                      .peer = taker.stage};
    const TransferPrices::Price price =
        transfers_.of(from, to, transfer_bytes(experiment_.costs, edges_, send));
    return end->second + price.hold_ns + price.latency_ns;
  }

  void run(const Choice choice) {
    Queue& queue = queues_[choice.rank][choice.queue];
    const Group group = queue.head();
    const bool computes = is_compute(group.front().kind);
    const Ns duration = computes ? group_duration_ns(experiment_.costs, group) : 0;
    free_ns_[choice.rank] = choice.start_ns + duration;
    for (const Action& action : group) {
      starts_.emplace(action_key_of(action), choice.start_ns);
      ends_[action_key_of(action)] = choice.start_ns + duration;
      if (makes_weight_gradient(action.kind)) --open_[{choice.rank, action.stage}];
      lists_[choice.rank].push_back(action);
    }
    const std::vector<Action> done(group.begin(), group.end());
    queue.pop();
    refresh(choice.rank);
    for (const Action& action : done) {
      const auto flow = output_of(action.kind);
      if (!flow) continue;
      for (const std::int32_t taker : takers_of(neighbours_, action.stage, *flow))
        refresh(index(program_.placement.rank_of(taker, action.microbatch)));
    }
  }

  const Experiment& experiment_;
  const Program& program_;
  StageNeighbours neighbours_;
  EdgeNumbers edges_;
  TransferPrices transfers_;
  std::vector<std::vector<Queue>> queues_;
  const ActionStarts& earlier_;
  std::vector<std::optional<Choice>> choice_of_rank_;
  std::set<Choice> choices_;  // the next group of each rank, by start time
  std::vector<Ns> free_ns_;
  std::vector<std::vector<Action>> lists_;
  ActionStarts starts_;
  std::map<ActionKey, Ns> ends_;
  // For each rank and stage: gradient actions that have not run yet.
  std::map<std::pair<std::size_t, std::int32_t>, std::int32_t> open_;
};

/// Returns the stages that a rank holds.
std::vector<std::int32_t> stages_of(const Program& program, std::int32_t rank) {
  std::vector<std::int32_t> stages;
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    if (program.placement.replica_on(stage, rank) >= 0) stages.push_back(stage);
  }
  return stages;
}

std::optional<std::string> fault_of_program(const Program& program, std::int32_t failed) {
  if (failed < 0 || failed >= program.rank_count())
    return fmt::format("expected a rank from 0 to {}, got {}", program.rank_count() - 1, failed);
  if (has_transfers(program)) return "expected lists without SEND and RECV, which follow from the placement";
  if (program.update != UpdateRule::minibatch)
    return "expected a schedule with one update a minibatch; an asynchronous one stops with its rank";
  if (program.sharding > 0)
    return "expected whole weights on each copy; the shard of a failed rank is lost (sharding)";
  for (const std::int32_t stage : stages_of(program, failed)) {
    if (is_shared(program, stage)) continue;
    return fmt::format(
        "no other rank holds stage {} of rank {}: expected copies of the pipeline "
        "(schedule.data_parallel, or parallel.data of a model on named devices)",
        stage, failed);
  }
  return std::nullopt;
}

/// Returns the placement of a stage without the replica `gone`. The microbatches (or slices) of this replica
/// are distributed in turn to the other replicas.
StagePlacement without_replica(const StagePlacement& stage, std::int32_t gone, std::int32_t units) {
  StagePlacement left{.ranks = stage.ranks, .route = {}, .passes = stage.passes};
  left.ranks.erase(left.ranks.begin() + gone);
  const auto count = static_cast<std::int32_t>(left.ranks.size());
  std::int32_t dealt = 0;
  for (std::int32_t unit = 0; unit < units; ++unit) {
    const std::int32_t replica = stage.route[index(unit) % stage.route.size()];
    left.route.push_back(replica == gone ? dealt++ % count : replica - (replica > gone ? 1 : 0));
  }
  return left;
}

/// Returns, for each rank, the actions that it takes over from the failed rank, in the order of the failed
/// rank's list.
std::vector<std::vector<Action>> moved_actions(const Program& before, const Program& after,
                                               std::int32_t failed) {
  std::vector<std::vector<Action>> moved(before.ranks.size());
  for (const Action& action : before.ranks[index(failed)]) {
    if (!has_microbatch(action.kind)) continue;
    moved[index(after.placement.rank_of(action.stage, action.microbatch))].push_back(action);
  }
  for (std::vector<Action>& of_rank : moved) {
    // The two actions of an overlapped pair may now be on different ranks. They then no longer overlap.
    for (std::size_t i = 0; i < of_rank.size(); ++i) {
      Action& action = of_rank[i];
      if (!action.overlaps_next) continue;
      const auto& list = before.ranks[index(failed)];
      const auto at = std::ranges::find(list, action);
      const bool stays = i + 1 < of_rank.size() && at + 1 != list.end() && *(at + 1) == of_rank[i + 1];
      action.overlaps_next = stays;
    }
  }
  return moved;
}

std::vector<std::vector<Queue>> own_queues(const Program& program) {
  std::vector<std::vector<Queue>> queues;
  queues.reserve(program.ranks.size());
  for (const std::vector<Action>& list : program.ranks) queues.push_back({Queue(list)});
  return queues;
}

}  // namespace

tl::expected<Program, std::string> rerouted(const Experiment& experiment, std::int32_t failed) {
  const Program& before = experiment.program;
  if (auto fault = fault_of_program(before, failed)) return tl::unexpected(*std::move(fault));
  const ActionStarts nothing;
  MergeWalk undisturbed(experiment, before, own_queues(before), nothing);
  if (!undisturbed.lists())
    return tl::unexpected(std::string("ranks wait for each other before the failure; see `penstock check`"));
  Program after = before;
  for (const std::int32_t stage : stages_of(before, failed)) {
    StagePlacement& placement = after.placement.stages[index(stage)];
    placement = without_replica(placement, before.placement.replica_on(stage, failed), before.unit_count());
  }
  const std::vector<std::vector<Action>> moved = moved_actions(before, after, failed);
  std::vector<std::vector<Queue>> queues = own_queues(before);
  queues[index(failed)].clear();
  for (std::size_t rank = 0; rank < moved.size(); ++rank)
    if (!moved[rank].empty()) queues[rank].emplace_back(moved[rank]);
  auto lists = MergeWalk(experiment, after, std::move(queues), undisturbed.starts()).lists();
  if (!lists) {
    return tl::unexpected(
        fmt::format("a reduction and microbatches of rank {} wait for each other; expected reductions at the "
                    "end (schedule.reduction: at_end)",
                    failed));
  }
  after.ranks = *std::move(lists);
  // If only one rank still holds a stage, its gradients need no reduction.
  for (std::vector<Action>& list : after.ranks) {
    std::erase_if(list, [&](const Action& action) {
      return action.kind == ActionKind::reduce_grad && !is_shared(after, action.stage);
    });
  }
  return after;
}

tl::expected<Experiment, std::string> with_all_copies(Experiment experiment) {
  if (!experiment.trained || experiment.copies == 1) return experiment;
  if (!experiment.source || !experiment.source->work) return experiment;
  const Workload& work = *experiment.source->work;
  if (!work.later_devices.empty())
    return tl::unexpected(std::string("expected copies on devices of one kind (cluster.groups)"));
  if (experiment.costs.microbatches_differ())
    return tl::unexpected(std::string("expected microbatches and slices of equal costs on named devices"));
  const std::int32_t copies = experiment.copies;
  // The duration of a STEP already includes the reduction among the copies, so the program gets no
  // reductions.
  experiment.program = replicate_pipeline(experiment.program, {.count = copies, .sync = ReplicaSync::off});
  // Before, the program had one copy, and each of its microbatches counted for all copies. Now it has every
  // copy.
  experiment.copies = 1;
  experiment.samples_per_microbatch /= copies;
  if (experiment.price_per_device_hour) *experiment.price_per_device_hour /= copies;
  ClusterSpec links;
  UniformCluster shape = links_between_stages(work);
  shape.devices = experiment.program.rank_count();
  links.shape = shape;
  PENSTOCK_ASSIGN_OR_RETURN(experiment.cluster, build_cluster(links, experiment.program.rank_count()));
  return experiment;
}

const ReroutedStep& RerouteReport::longest() const {
  return *std::ranges::max_element(after, {}, &ReroutedStep::step_ns);
}

double RerouteReport::mean_ns() const {
  const auto add = [](double sum, const ReroutedStep& step) {
    return sum + static_cast<double>(step.step_ns);
  };
  return std::accumulate(after.begin(), after.end(), 0.0, add) / static_cast<double>(after.size());
}

namespace {

/// Removes messages and the actions that wait for them. They follow from the placement, so they are added
/// again later for the new placement.
void remove_messages(Program& program) {
  for (std::vector<Action>& list : program.ranks) {
    std::erase_if(list,
                  [](const Action& action) { return is_transfer(action.kind) || is_wait(action.kind); });
  }
}

tl::expected<Ns, UserError> step_ns(Experiment experiment) {
  PENSTOCK_ASSIGN_OR_RETURN(const Experiment stored, lowered(std::move(experiment)));
  return simulate(stored, {.memory = {.samples = false},
                           .steady = SteadyState::skip,
                           .digest = ProgramDigest::skip,
                           .timeline = TimelineKept::none})
      .map([](const Result& result) { return result.makespan_ns; })
      .map_error([](const Hang& hang) {
        return UserError{.kind = ErrorKind::check_failed, .message = hang.message, .hang = hang};
      });
}

}  // namespace

tl::expected<RerouteReport, UserError> reroute_report(const Scenario& scenario) {
  Scenario one_step = scenario;
  one_step.shape.iterations = 1;
  if (one_step.program) one_step.program->iterations = 1;
  const auto refused = [](const std::string& why) { return bad_input("--reroute: " + why); };
  PENSTOCK_ASSIGN_OR_RETURN(Experiment prepared, prepare(one_step, ProgramForm::lists));
  remove_messages(prepared.program);
  auto copies = with_all_copies(std::move(prepared));
  if (!copies) return refused(copies.error());
  RerouteReport report;
  std::set<std::vector<std::int32_t>> tried;
  for (std::int32_t rank = 0; rank < copies->program.rank_count(); ++rank) {
    const std::vector<std::int32_t> stages = stages_of(copies->program, rank);
    if (stages.empty() || !tried.insert(stages).second) continue;
    auto program = rerouted(*copies, rank);
    if (!program) return refused(program.error());
    Experiment after = *copies;
    after.program = *std::move(program);
    PENSTOCK_ASSIGN_OR_RETURN(const Ns step, step_ns(std::move(after)));
    report.after.push_back({.rank = rank, .stage = stages.front(), .step_ns = step});
  }
  PENSTOCK_ASSIGN_OR_RETURN(report.before_ns, step_ns(*std::move(copies)));
  return report;
}

}  // namespace penstock
