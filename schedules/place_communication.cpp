// Pass: SEND and RECV actions, placed by the sender.
//
//   rank 0   0F0 0F1 0B0 0B1        0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1
//   rank 1   1F0 1B0 1F1 1B1   ->   1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1
//
// Ranks take turns in ascending order, one action (or overlapped group) a turn. An action is ready when
// everything that it reads is on its rank: made there, or its RECV placed. A collective is placed on all its
// members when each has it at its head. Where that stalls, because a member has to compute for another one
// before that can come as far (buckets of uneven replica groups), one rank after another joins its collective
// and goes on up to what waits for it; such lists are no longer projections of one order, and are checked.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "schedules/action.hpp"
#include "schedules/channel_check.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/lower.hpp"
#include "schedules/program.hpp"

namespace penstock {
namespace {

/// One stage edge as seen from one of its stages.
struct Neighbour {
  std::int32_t stage = 0;
  std::size_t edge = 0;
};

class Placer {
 public:
  explicit Placer(const Program& program)
      : source_(program), lowered_(program), inputs_(stages()), outputs_(stages()), next_(ranks(), 0) {
    const std::vector<StageEdge> edges = stage_edges(program);
    for (std::size_t edge = 0; edge < edges.size(); ++edge) {
      inputs_[index(edges[edge].to)].push_back({edges[edge].from, edge});
      outputs_[index(edges[edge].from)].push_back({edges[edge].to, edge});
    }
    units_ = static_cast<std::size_t>(program.unit_count());
    activation_there_.assign(edges.size() * units_, false);
    gradient_there_.assign(edges.size() * units_, false);
    for (const StagePlacement& stage : program.placement.stages) {
      joined_.emplace_back(stage.ranks.size(), 0);
      joined_.emplace_back(stage.ranks.size(), 0);
    }
    for (std::vector<Action>& list : lowered_.ranks) list.clear();
  }

  tl::expected<Program, std::string> place_all() {
    place_in_one_order();
    if (all_finished()) return std::move(lowered_);
    const std::string stuck = stuck_message();
    while (join_one()) place_in_one_order();
    if (!all_finished()) return tl::unexpected(stuck);
    if (find_hang(lowered_, {}, unit_costs(lowered_))) return tl::unexpected(stuck);
    return std::move(lowered_);
  }

 private:
  static std::size_t index(std::int32_t number) { return static_cast<std::size_t>(number); }
  std::size_t stages() const { return source_.placement.stages.size(); }
  std::size_t ranks() const { return source_.ranks.size(); }
  std::size_t at(std::size_t edge, std::int32_t unit) const { return edge * units_ + index(unit); }
  bool finished(std::size_t rank) const { return next_[rank] == source_.ranks[rank].size(); }
  const Action& head(std::size_t rank) const { return source_.ranks[rank][next_[rank]]; }

  bool all_finished() const {
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      if (!finished(rank)) return false;
    }
    return true;
  }

  void place_in_one_order() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (std::size_t rank = 0; rank < ranks(); ++rank) progress |= take_turn(rank);
    }
  }

  /// Lets the lowest rank that stands at a collective join it before the others are there.
  bool join_one() {
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      if (finished(rank) || !is_collective(head(rank).kind)) continue;
      some_joined_early_ = true;
      join(rank, replica_on(head(rank).stage, rank));
      return true;
    }
    return false;
  }

  void join(std::size_t rank, std::size_t replica) {
    ++joined(head(rank))[replica];
    lowered_.ranks[rank].push_back(head(rank));
    ++next_[rank];
  }

  /// How many UNSHARDs or REDUCE_GRADs of the stage each replica has joined.
  std::vector<std::int32_t>& joined(const Action& collective) {
    return joined_[(index(collective.stage) * 2) + (collective.kind == ActionKind::unshard ? 1 : 0)];
  }

  std::size_t replica_on(std::int32_t stage, std::size_t rank) const {
    return index(source_.placement.replica_on(stage, static_cast<std::int32_t>(rank)));
  }

  /// What the action waits for has been joined by all that hold the stage.
  bool collectives_are_done(std::size_t rank, const Action& action) {
    const bool steps = action.kind == ActionKind::step;
    const auto& counts =
        joined({.kind = steps ? ActionKind::reduce_grad : ActionKind::unshard, .stage = action.stage});
    return std::ranges::min(counts) >= counts[replica_on(action.stage, rank)];
  }

  std::size_t group_end(std::size_t rank) const {
    std::size_t last = next_[rank];
    while (source_.ranks[rank][last].overlaps_next) ++last;
    return last + 1;
  }

  bool take_turn(std::size_t rank) {
    if (finished(rank)) return false;
    if (is_collective(head(rank).kind)) return place_collective(rank, head(rank));
    const std::size_t end = group_end(rank);
    for (std::size_t i = next_[rank]; i < end; ++i) {
      if (!ready(source_.ranks[rank][i])) return false;
      if (some_joined_early_ && !collectives_are_done(rank, source_.ranks[rank][i])) return false;
    }
    for (std::size_t i = next_[rank]; i < end; ++i) lowered_.ranks[rank].push_back(source_.ranks[rank][i]);
    for (std::size_t i = next_[rank]; i < end; ++i) deliver(rank, source_.ranks[rank][i]);
    next_[rank] = end;
    return true;
  }

  bool place_collective(std::size_t rank, const Action action) {
    const std::vector<std::int32_t>& members = source_.placement.stages[index(action.stage)].ranks;
    const std::vector<std::int32_t>& counts = joined(action);
    const std::int32_t before = counts[replica_on(action.stage, rank)];
    for (std::size_t replica = 0; replica < members.size(); ++replica) {
      if (counts[replica] > before) continue;  // it has joined this one early
      const std::size_t member = index(members[replica]);
      if (counts[replica] < before || finished(member)) return false;
      if (head(member).kind != action.kind || head(member).stage != action.stage) return false;
    }
    for (std::size_t replica = 0; replica < members.size(); ++replica) {
      if (counts[replica] == before) join(index(members[replica]), replica);
    }
    return true;
  }

  bool waits_for_gradient(ActionKind kind) const {
    return kind == ActionKind::backward || kind == ActionKind::backward_input ||
           (kind == ActionKind::recompute && source_.recompute == RecomputeTiming::late);
  }

  bool ready(const Action& action) const {
    if (action.kind == ActionKind::forward) {
      for (const Neighbour& input : inputs_[index(action.stage)]) {
        if (!activation_there_[at(input.edge, action.microbatch)]) return false;
      }
    } else if (waits_for_gradient(action.kind)) {
      for (const Neighbour& output : outputs_[index(action.stage)]) {
        if (!gradient_there_[at(output.edge, action.microbatch)]) return false;
      }
    }
    return true;
  }

  void deliver(std::size_t rank, const Action& action) {
    const bool gradient = action.kind == ActionKind::backward || action.kind == ActionKind::backward_input;
    if (action.kind == ActionKind::forward) {
      for (const Neighbour& output : outputs_[index(action.stage)]) {
        activation_there_[at(output.edge, action.microbatch)] = true;
        send(rank, action, output.stage, ActionKind::send_forward, ActionKind::recv_forward);
      }
    } else if (gradient) {
      for (const Neighbour& input : inputs_[index(action.stage)]) {
        gradient_there_[at(input.edge, action.microbatch)] = true;
        send(rank, action, input.stage, ActionKind::send_backward, ActionKind::recv_backward);
      }
    }
  }

  void send(std::size_t rank, const Action& producer, std::int32_t to_stage, ActionKind send_kind,
            ActionKind recv_kind) {
    const std::size_t to_rank = index(source_.placement.rank_of(to_stage, producer.microbatch));
    if (to_rank == rank) return;
    lowered_.ranks[rank].push_back(
        {.kind = send_kind, .stage = producer.stage, .microbatch = producer.microbatch, .peer = to_stage});
    lowered_.ranks[to_rank].push_back(
        {.kind = recv_kind, .stage = to_stage, .microbatch = producer.microbatch, .peer = producer.stage});
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

  std::string missing_input(std::size_t rank) const {
    const std::size_t end = group_end(rank);
    for (std::size_t i = next_[rank]; i < end; ++i) {
      const Action& action = source_.ranks[rank][i];
      if (is_collective(action.kind)) return "the other ranks that hold the stage";
      if (ready(action)) continue;
      const bool forward = action.kind == ActionKind::forward;
      const auto& there = forward ? activation_there_ : gradient_there_;
      for (const Neighbour& from : forward ? inputs_[index(action.stage)] : outputs_[index(action.stage)]) {
        if (there[at(from.edge, action.microbatch)]) continue;
        return fmt::format("{}{}{}", from.stage, forward ? "F" : "B", action.microbatch);
      }
    }
    return "nothing";
  }

  const Program& source_;
  Program lowered_;
  std::vector<std::vector<Neighbour>> inputs_;
  std::vector<std::vector<Neighbour>> outputs_;
  std::vector<std::size_t> next_;
  std::size_t units_ = 0;
  std::vector<bool> activation_there_;  // by edge and unit: the consumer's rank has it
  std::vector<bool> gradient_there_;
  std::vector<std::vector<std::int32_t>> joined_;  // by stage and kind, then by replica
  bool some_joined_early_ = false;
};

}  // namespace

tl::expected<Program, std::string> place_communication(const Program& program) {
  return Placer(program).place_all();
}

}  // namespace penstock
