// Chooses the engine that an experiment needs. The critical-path engine is fast. It is exact only if no two
// transfers or collectives ever use a link at the same time. If a link is shared, the event engine is needed.

#include "sim/engines/engines.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/turn_state.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"
#include "sim/network/message_costs.hpp"
#include "topology/cluster.hpp"
#include "topology/collective.hpp"

namespace penstock {

namespace {

/// The identity of a stream of messages that never overlap in time. It is one queue between two ranks, or
/// one hop in the ring of a group of ranks. Each group has one queue for its collectives.
using MessageStream = std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int32_t>;

/// The first stream that was added to each link of limited bandwidth. If a second stream is added, the link
/// is shared, so one stream for each link is enough.
class LinkUsers {
 public:
  explicit LinkUsers(const Experiment& experiment) : cluster_(experiment.cluster) {}

  /// Adds a stream to the links of its route. Returns true if another stream crosses one of these links and
  /// the link's bandwidth is limited.
  bool add(const MessageStream& stream, std::int32_t from, std::int32_t to) {
    bool shared = false;
    for (const LinkNumber link : cluster_.route(from, to).links) {
      if (!std::isfinite(cluster_.link_bytes_per_second(link))) continue;
      const auto [entry, first] = first_user_.try_emplace(link, stream);
      shared |= !first && entry->second != stream;
    }
    return shared;
  }

 private:
  const Cluster& cluster_;
  std::map<LinkNumber, MessageStream> first_user_;
};

/// Returns the stream to which a message belongs. Only with `boundary` and `direction` channels can two
/// transfers between the same ranks overlap.
MessageStream stream_of(const Action& send, std::int32_t from, std::int32_t to, ChannelModel model) {
  switch (model) {
    case ChannelModel::rank:
    case ChannelModel::pair:
    case ChannelModel::directed:
      return {from, to, 0, 0};
    case ChannelModel::direction:
      return {from, to, static_cast<std::int32_t>(flow_of(send.kind)), 0};
    case ChannelModel::boundary:
      return {from, to, send.stage, send.peer};
  }
  return {};
}

/// The groups of ranks that take part in collectives.
class Groups {
 public:
  explicit Groups(const Experiment& experiment) : experiment_(experiment), rings_(experiment) {}

  /// Adds the ring of the ranks that hold the stage. Returns true if another stream crosses one of the
  /// ring's links.
  bool add(std::int32_t stage, LinkUsers& users) {
    if (!known_.insert(stage).second) return false;
    // Stages with the same ranks use one queue of collectives, so the group is added once. All hops of a ring
    // carry bytes at the same time, so each hop is a stream of its own.
    const auto& ranks = experiment_.program.placement.stages[index(stage)].ranks;
    const auto [group, is_new] = groups_.try_emplace(ranks, static_cast<std::int32_t>(groups_.size()));
    if (!is_new) return false;
    bool shared = false;
    const Action reduction{.kind = ActionKind::reduce_grad, .stage = stage};
    for (const RingHop& hop : rings_.of(reduction).sent)
      shared |= users.add({-1, group->second, hop.from, hop.to}, hop.from, hop.to);
    return shared;
  }

 private:
  const Experiment& experiment_;
  CollectiveRings rings_;
  std::set<std::int32_t> known_;  // stages whose collectives were added
  std::map<std::vector<std::int32_t>, std::int32_t> groups_;
};

/// Calls `see` with each SEND and each collective in a rank's list, until `see` returns true. If `ways` is
/// set, the list has only compute actions. `see` then gets the SENDs that lower() would add. Returns true
/// if `see` has returned true.
template <class List, class See>
bool any_exchange(const Program& program, const ActionWays* ways, std::int32_t rank, const List& list,
                  const See& see) {
  return std::ranges::any_of(list, [&](const Action& action) {
    if (is_send(action.kind) || is_collective(action.kind)) return see(action);
    if (ways == nullptr) return false;
    return std::ranges::any_of(ways->given_by(action), [&](const ActionWay& way) {
      if (way.rank_of(program.placement, action.microbatch) == rank) return false;
      return see(send_of(
          {.flow = way.flow, .from = action.stage, .to = way.stage, .microbatch = action.microbatch}));
    });
  });
}

}  // namespace

bool links_are_shared(const Experiment& experiment) {
  const Program& program = experiment.program;
  LinkUsers users(experiment);
  Groups groups(experiment);
  const ActionWays program_ways(program);
  // Lowered lists contain all messages as SENDs. In compute lists, the messages are the outputs of the
  // actions.
  const ActionWays* const ways = has_transfers(program) ? nullptr : &program_ways;
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    // The streams of this rank so far. A rank has few streams but many messages, so `users` is called once
    // for each stream.
    std::vector<MessageStream> known;
    const auto shares = [&](const Action& action) {
      if (is_collective(action.kind)) return groups.add(action.stage, users);
      const std::int32_t to = program.placement.rank_of(action.peer, action.microbatch);
      const MessageStream stream = stream_of(action, rank, to, experiment.channels.model);
      if (std::ranges::find(known, stream) != known.end()) return false;
      known.push_back(stream);
      return users.add(stream, rank, to);
    };
    const bool any = experiment.loops.empty()
                         ? any_exchange(program, ways, rank, program.ranks[index(rank)], shares)
                         : any_exchange(program, ways, rank, experiment.loops[index(rank)], shares);
    if (any) return true;
  }
  return false;
}

bool stages_share_links(const Experiment& experiment) {
  // If all bandwidths are unlimited, shared links delay nothing.
  if (experiment.cluster.least_bytes_per_second() == kUnlimitedBandwidth) return false;
  const Placement& placement = experiment.program.placement;
  LinkUsers users(experiment);
  Groups groups(experiment);
  bool shared = false;
  for (const StageEdge& edge : stage_edges(experiment.program)) {
    // The pairs of a sending and a receiving replica repeat after the least common multiple of both numbers.
    // For example, 2 and 3 replicas form 6 pairs.
    const std::size_t routes = std::lcm(placement.stages[index(edge.from)].route.size(),
                                        placement.stages[index(edge.to)].route.size());
    for (const Flow flow : {Flow::activation, Flow::gradient}) {
      const bool along = flow == Flow::activation;
      for (std::size_t unit = 0; unit < routes; ++unit) {
        const Action send = send_of({.flow = flow,
                                     .from = along ? edge.from : edge.to,
                                     .to = along ? edge.to : edge.from,
                                     .microbatch = static_cast<std::int32_t>(unit)});
        const std::int32_t from = placement.rank_of(send.stage, send.microbatch);
        const std::int32_t to = placement.rank_of(send.peer, send.microbatch);
        if (from != to) shared |= users.add(stream_of(send, from, to, experiment.channels.model), from, to);
      }
    }
  }
  // This function does not read the lists, so it assumes that every stage has collectives.
  for (std::int32_t stage = 0; stage < experiment.program.stage_count(); ++stage)
    shared |= groups.add(stage, users);
  return shared;
}

Engine resolve(const Experiment& experiment, Engine engine) {
  if (engine != Engine::automatic) return engine;
  return links_are_shared(experiment) ? Engine::event : Engine::critical_path;
}

tl::expected<EngineRun, Hang> run_engine(const Experiment& experiment, Engine engine) {
  return resolve(experiment, engine) == Engine::event ? event_run(experiment) : critical_path_run(experiment);
}

tl::expected<Timeline, Hang> critical_path(const Experiment& experiment) {
  return critical_path_run(experiment).map([&](const EngineRun& run) {
    return timeline_of(run.flat, experiment.program.placement, run.times);
  });
}

tl::expected<Timeline, Hang> event_simulation(const Experiment& experiment) {
  return event_run(experiment).map([&](const EngineRun& run) {
    return timeline_of(run.flat, experiment.program.placement, run.times);
  });
}

// The critical-path engine. If durations are fixed, an action starts at the end of the longest path that
// leads to it. One pass over the program's tape finds the longest paths to all actions. A program that hangs
// has no tape. The channel check then explains the hang.

tl::expected<EngineRun, Hang> critical_path_run(const Experiment& experiment) {
  FlatProgram flat = flatten(experiment.program, experiment.costs,
                             {.channels = experiment.channels, .iterations = experiment.program.iterations});
  std::optional<Tape> tape = compile(flat, experiment.channels, microbatch_groups(experiment.costs));
  // A program with crossed messages usually has no tape. If messages are eager, it may have one, so the check
  // must look for crossed messages.
  if (!tape || experiment.channels.eager_bytes > 0) {
    if (auto hang = find_hang(experiment.program, experiment.channels, experiment.costs))
      return tl::unexpected(*std::move(hang));
  }
  TapeCosts costs = tape_costs(*tape, experiment);
  ProgramTimes times = times_of(*tape, costs, flat);
  return EngineRun{.flat = std::move(flat),
                   .times = std::move(times),
                   .tape = PricedTape{.tape = *std::move(tape), .costs = std::move(costs)}};
}

}  // namespace penstock
