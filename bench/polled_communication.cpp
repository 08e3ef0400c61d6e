// Places SEND and RECV actions when the sender runs. In every round, it checks every rank.
//
//     rank 0   0F0 0F1 0B0 0B1        0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1
//     rank 1   1F0 1B0 1F1 1B1   ->   1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1
//
// In each round, the ranks run in ascending order, and each places at most one action (or overlapped group).
// An action is ready when all its inputs are on its rank: they were computed there, or their RECVs are
// placed. A collective is placed on all its members when it is the next action of each member.
//
// This may stop: a member may have to compute an input for another member before that one can reach the
// collective (buckets of uneven replica groups). Then one rank after another joins its collective early and
// continues until it needs the result. Such lists do not come from one common order, so they are checked for
// hangs.

#include "bench/polled_communication.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "schedules/check/channel_check.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// A neighbour of a stage, and the edge that leads to it.
struct Neighbour {
  std::int32_t stage = 0;
  std::size_t edge = 0;
};

class Placer {
 public:
  explicit Placer(const Program& program)
      : source_(program), lowered_(program), givers_(2 * stages()), takers_(2 * stages()), next_(ranks(), 0) {
    const std::vector<StageEdge> edges = stage_edges(program);
    for (std::size_t edge = 0; edge < edges.size(); ++edge) {
      const StageEdge& of = edges[edge];
      if (carries(program.placement, of, Flow::activation)) add_edge(Flow::activation, edge, of.from, of.to);
      if (carries(program.placement, of, Flow::gradient)) add_edge(Flow::gradient, edge, of.to, of.from);
    }
    units_ = static_cast<std::size_t>(program.unit_count());
    there_.assign(2 * edges.size() * units_, false);
    for (const StagePlacement& stage : program.placement.stages) {
      joined_.emplace_back(stage.ranks.size(), 0);
      joined_.emplace_back(stage.ranks.size(), 0);
    }
    for (std::vector<Action>& list : lowered_.ranks) list.clear();
  }

  tl::expected<Program, std::string> place_all() {
    place_in_one_order();
    if (all_finished()) return std::move(lowered_);
    // The error message is made now, because it must describe the end of the common order. Later it would
    // describe ranks that continued alone.
    const std::string stuck = stuck_message();
    while (join_one()) place_in_one_order();
    if (!all_finished()) return tl::unexpected(stuck);
    // After early joins, the program may hang, so it is checked.
    if (find_hang(lowered_, {}, unit_costs(lowered_))) return tl::unexpected(stuck);
    return std::move(lowered_);
  }

 private:
  std::size_t stages() const { return source_.placement.stages.size(); }
  std::size_t ranks() const { return source_.ranks.size(); }
  /// Returns the index of a flow, edge and unit in there_.
  std::size_t at(Flow flow, std::size_t edge, std::int32_t unit) const {
    return (2 * edge + static_cast<std::size_t>(flow)) * units_ + index(unit);
  }
  bool finished(std::size_t rank) const { return next_[rank] == source_.ranks[rank].size(); }
  const Action& head(std::size_t rank) const { return source_.ranks[rank][next_[rank]]; }

  bool all_finished() const {
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      if (!finished(rank)) return false;
    }
    return true;
  }

  /// Runs rounds over all ranks until a round places no action.
  void place_in_one_order() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (std::size_t rank = 0; rank < ranks(); ++rank) progress |= take_turn(rank);
    }
  }

  /// Lets the lowest rank that has reached a collective join it before the other members. Returns false if
  /// there is none.
  bool join_one() {
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      if (finished(rank) || !is_collective(head(rank).kind)) continue;
      some_joined_early_ = true;
      join(rank, replica_on(head(rank).stage, rank));
      return true;
    }
    return false;
  }

  /// Records that the rank of this replica has joined the collective.
  void join(std::size_t rank, std::size_t replica) {
    ++joined(head(rank))[replica];
    lowered_.ranks[rank].push_back(head(rank));
    ++next_[rank];
  }

  /// Returns, for each replica, the number of UNSHARDs or REDUCE_GRADs of the stage that it has joined.
  std::vector<std::int32_t>& joined(const Action& collective) {
    return joined_[(index(collective.stage) * 2) + (collective.kind == ActionKind::unshard ? 1 : 0)];
  }

  std::size_t replica_on(std::int32_t stage, std::size_t rank) const {
    return index(source_.placement.replica_on(stage, static_cast<std::int32_t>(rank)));
  }

  /// Returns true if all ranks of the stage have joined the collectives for which the action waits.
  bool collectives_are_done(std::size_t rank, const Action& action) {
    return std::ranges::all_of(collectives_before(action.kind, source_.sharding), [&](ActionKind awaited) {
      const auto& counts = joined({.kind = awaited, .stage = action.stage});
      return std::ranges::min(counts) >= counts[replica_on(action.stage, rank)];
    });
  }

  /// Places the next action or group of the rank, and its messages. Returns false if an input is not present
  /// yet.
  bool take_turn(std::size_t rank) {
    if (finished(rank)) return false;
    if (is_collective(head(rank).kind)) return place_collective(rank, head(rank));
    const std::size_t end = group_end(source_.ranks[rank], next_[rank]);
    for (std::size_t i = next_[rank]; i < end; ++i) {
      if (missing_giver(source_.ranks[rank][i])) return false;
      if (some_joined_early_ && !collectives_are_done(rank, source_.ranks[rank][i])) return false;
    }
    for (std::size_t i = next_[rank]; i < end; ++i) lowered_.ranks[rank].push_back(source_.ranks[rank][i]);
    // The messages follow the whole group, because both actions of a pair end at the same time.
    for (std::size_t i = next_[rank]; i < end; ++i) deliver(rank, source_.ranks[rank][i]);
    next_[rank] = end;
    return true;
  }

  /// Places the collective on all members that have not joined it early, if it is the next action of each of
  /// them. The numbers of joins show which members have joined early:
  ///
  ///     replica    0  1  2
  ///     joined     2  3  2
  ///
  /// In this example, `rank` has replica 0. Replica 1 has already joined this collective. If it is the next
  /// action of replica 2's rank, replicas 0 and 2 join it now. Otherwise no replica joins.
  bool place_collective(std::size_t rank, const Action action) {
    const std::vector<std::int32_t>& members = source_.placement.stages[index(action.stage)].ranks;
    const std::vector<std::int32_t>& counts = joined(action);
    const std::int32_t before = counts[replica_on(action.stage, rank)];
    for (std::size_t replica = 0; replica < members.size(); ++replica) {
      if (counts[replica] > before) continue;  // this replica has joined the collective early
      const std::size_t member = index(members[replica]);
      if (counts[replica] < before || finished(member)) return false;
      if (head(member).kind != action.kind || head(member).stage != action.stage) return false;
    }
    for (std::size_t replica = 0; replica < members.size(); ++replica) {
      if (counts[replica] == before) join(index(members[replica]), replica);
    }
    return true;
  }

  /// Returns the index of a stage and a flow in givers_ and takers_.
  static std::size_t of_flow(std::int32_t stage, Flow flow) {
    return 2 * index(stage) + static_cast<std::size_t>(flow);
  }
  void add_edge(Flow flow, std::size_t edge, std::int32_t giver, std::int32_t taker) {
    givers_[of_flow(taker, flow)].push_back({giver, edge});
    takers_[of_flow(giver, flow)].push_back({taker, edge});
  }
  const std::vector<Neighbour>& givers_of(std::int32_t stage, Flow flow) const {
    return givers_[of_flow(stage, flow)];
  }
  const std::vector<Neighbour>& takers_of(std::int32_t stage, Flow flow) const {
    return takers_[of_flow(stage, flow)];
  }

  /// Returns the first stage whose activation or gradient is missing for the action, or nothing if all inputs
  /// are present.
  std::optional<std::int32_t> missing_giver(const Action& action) const {
    const auto flow = input_of(action.kind, source_.recompute);
    if (!flow) return std::nullopt;
    for (const Neighbour& giver : givers_of(action.stage, *flow)) {
      if (!there_[at(*flow, giver.edge, action.microbatch)]) return giver.stage;
    }
    return std::nullopt;
  }

  /// Records that the action's output is present, and sends it to the stages that read it.
  void deliver(std::size_t rank, const Action& action) {
    const auto flow = output_of(action.kind);
    if (!flow) return;
    for (const Neighbour& taker : takers_of(action.stage, *flow)) {
      there_[at(*flow, taker.edge, action.microbatch)] = true;
      send(rank, {.flow = *flow, .from = action.stage, .to = taker.stage, .microbatch = action.microbatch});
    }
  }

  /// Places the message, unless both stages are on one rank.
  void send(std::size_t rank, const StageMessage& message) {
    const std::size_t to_rank = index(source_.placement.rank_of(message.to, message.microbatch));
    if (to_rank == rank) return;
    lowered_.ranks[rank].push_back(send_of(message));
    lowered_.ranks[to_rank].push_back(recv_of(message));
  }

  std::string stuck_message() const {
    std::string message = "the order of the actions cannot be executed; ranks wait for each other:";
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      if (finished(rank)) continue;
      message += fmt::format("\n  rank {} at position {}: {} waits for {}", rank, next_[rank],
                             to_text(head(rank)), missing_input(rank));
    }
    return message;
  }

  /// Returns the missing input, such as "2F1" or "3B0". If other members of a collective are missing, returns
  /// a text about them.
  std::string missing_input(std::size_t rank) const {
    const std::size_t end = group_end(source_.ranks[rank], next_[rank]);
    for (std::size_t i = next_[rank]; i < end; ++i) {
      const Action& action = source_.ranks[rank][i];
      if (is_collective(action.kind)) return "the other ranks that hold the stage";
      if (const auto giver = missing_giver(action)) {
        const bool forward = action.kind == ActionKind::forward;
        return fmt::format("{}{}{}", *giver, forward ? "F" : "B", action.microbatch);
      }
    }
    return "nothing";
  }

  const Program& source_;
  Program lowered_;
  std::vector<std::vector<Neighbour>> givers_;  // by stage and flow
  std::vector<std::vector<Neighbour>> takers_;
  std::vector<std::size_t> next_;
  std::size_t units_ = 0;
  std::vector<bool> there_;  // by edge, flow and unit: true if the reader's rank has the data
  std::vector<std::vector<std::int32_t>> joined_;  // by stage and kind, then by replica
  bool some_joined_early_ = false;
};

}  // namespace

tl::expected<Program, std::string> polled_communication(const Program& program) {
  return Placer(program).place_all();
}

}  // namespace penstock
