// Checks that each stage runs all actions of each microbatch in a legal order. Then it checks the messages
// between stages. The table has a row for each stage and a column for each unit (a microbatch or slice).
// Before the table is made, a check ensures that the lists are long enough to fill it.
//
//             unit 0             unit 1             positions in the list of the rank that runs the unit on
//   stage 0   F 0  I 3  W 4      F 1  I 5  W 6      the stage; either B, or I and W
//   stage 1   F 1  B 2           F 3  B 4
//
// Tested by validate_test.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <tl/expected.hpp>

#include "schedules/check/validate_parts.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

namespace {

using Positions = UnitTable::Positions;
Action compute_action(ActionKind kind, std::int32_t stage, std::int32_t unit) {
  return {.kind = kind, .stage = stage, .microbatch = unit};
}

/// Returns the entry of `positions` for an action of this kind, or null for kinds that have no entry.
std::int32_t* place_of(Positions& positions, ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return &positions.forward;
    case ActionKind::backward:
      return &positions.backward;
    case ActionKind::backward_input:
      return &positions.backward_input;
    case ActionKind::backward_weight:
      return &positions.backward_weight;
    case ActionKind::recompute:
      return &positions.recompute;
    case ActionKind::send_forward:
    case ActionKind::recv_forward:
    case ActionKind::send_backward:
    case ActionKind::recv_backward:
    case ActionKind::unshard:
    case ActionKind::reshard:
    case ActionKind::reduce_grad:
    case ActionKind::step:
    case ActionKind::wait_send_forward:
    case ActionKind::wait_send_backward:
    case ActionKind::wait_reduce_grad:
    case ActionKind::offload:
    case ActionKind::reload:
      return nullptr;
  }
  return nullptr;
}

/// Returns the lowest unit (microbatch or slice) that has no F on `stage`. Returns unit_count() if all
/// units have one.
std::int32_t missing_forward(const Program& program, std::int32_t stage) {
  std::vector<std::int32_t> units;
  for (const std::vector<Action>& actions : program.ranks) {
    for (const Action& action : actions) {
      if (action.kind == ActionKind::forward && action.stage == stage) units.push_back(action.microbatch);
    }
  }
  std::ranges::sort(units);
  std::int32_t missing = 0;
  for (const std::int32_t unit : units) {
    // The list is sorted, so a unit that appears twice is counted once.
    if (unit == missing) ++missing;
  }
  return missing;
}

tl::unexpected<std::string> report_missing(const Program& program, ActionKind kind, std::int32_t stage,
                                           std::int32_t unit, std::string_view rule) {
  return missing_at(program, program.placement.rank_of(stage, unit),
                    fmt::format("{} is missing, {}", to_text(compute_action(kind, stage, unit)), rule));
}

constexpr std::string_view kForwardRule = "every stage must run each microbatch's F once";
constexpr std::string_view kBackwardRule = "every F must have a B, or an I and a W";
constexpr std::string_view kForwardOnlyHint =
    "every F must have a B, or an I and a W; a program without backward passes (evaluation, prefill) says "
    "so: "
    "`forward_only` in the header of a .psched, `schedule.forward_only: true` in a scenario, or "
    "--forward-only";

bool has_backward(const Program& program) {
  return std::ranges::any_of(program.ranks, [](const std::vector<Action>& actions) {
    return std::ranges::any_of(actions, [](const Action& action) { return is_backward(action.kind); });
  });
}

/// Checks the number of F actions of each stage, before the table of all units is made. A program may state
/// far more microbatches than its lists have. The table must not become larger than the lists.
Checked check_forward_counts(const Program& program) {
  std::vector<std::int64_t> forwards(program.placement.stages.size());
  for (const std::vector<Action>& actions : program.ranks) {
    for (const Action& action : actions) {
      if (action.kind == ActionKind::forward) ++forwards[static_cast<std::size_t>(action.stage)];
    }
  }
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    if (forwards[static_cast<std::size_t>(stage)] >= program.unit_count()) continue;
    return report_missing(program, ActionKind::forward, stage, missing_forward(program, stage), kForwardRule);
  }
  return {};
}

/// Enters the F, B, I, W and R actions of the rank in the table. Returns a fault if one of them appears
/// twice.
Checked fill(UnitTable& table, const Program& program, std::int32_t rank) {
  const std::vector<Action>& actions = program.ranks[static_cast<std::size_t>(rank)];
  std::size_t group = 0;
  for (std::size_t position = 0; position < actions.size(); ++position) {
    const Action& action = actions[position];
    if (opens_group(actions, position)) group = position;
    if (!has_weight_version(action.kind)) continue;
    std::int32_t& place = *place_of(table.at(action.stage, action.microbatch), action.kind);
    if (place != UnitTable::kAbsent) {
      return broken_at(
          program, rank, position, action,
          fmt::format("comes a second time, must come once (before at position {}); delete one", place));
    }
    // All actions of a group start together, so they share one position.
    place = static_cast<std::int32_t>(group);
  }
  return {};
}

/// Checks that a unit (microbatch or slice) has an F, and either a B or both an I and a W. The action R is
/// optional. A stage without backward passes needs only the F, because check_actions() has refused all
/// others.
Checked check_complete(const Program& program, std::int32_t stage, std::int32_t unit, const Positions& at) {
  if (at.forward == UnitTable::kAbsent)
    return report_missing(program, ActionKind::forward, stage, unit, kForwardRule);
  if (program.placement.stages[index(stage)].is_forward_only()) return {};
  const bool input = at.backward_input != UnitTable::kAbsent;
  const bool weight = at.backward_weight != UnitTable::kAbsent;
  if (at.backward == UnitTable::kAbsent) {
    if (input && weight) return {};
    // If the list has only one half of the backward pass (I or W), the other half is missing. Otherwise the
    // whole backward pass is missing.
    ActionKind missing = ActionKind::backward;
    if (input) missing = ActionKind::backward_weight;
    if (weight) missing = ActionKind::backward_input;
    const std::string_view rule = has_backward(program) ? kBackwardRule : kForwardOnlyHint;
    return report_missing(program, missing, stage, unit, rule);
  }
  if (!input && !weight) return {};
  const auto extra = input ? ActionKind::backward_input : ActionKind::backward_weight;
  return broken_at(program, program.placement.rank_of(stage, unit),
                   static_cast<std::size_t>(input ? at.backward_input : at.backward_weight),
                   compute_action(extra, stage, unit),
                   fmt::format("repeats the work of {} (position {}); delete one of the two",
                               to_text(compute_action(ActionKind::backward, stage, unit)), at.backward));
}

/// Returns a fault unless `late` comes after `early` on the same rank. Two actions of one overlapped group
/// start together, so neither of them comes after the other.
Checked check_after(const Program& program, const Placed& early, const Placed& late) {
  if (late.position > early.position) return {};
  const std::int32_t rank = program.placement.rank_of(late.action.stage, late.action.microbatch);
  const std::string rule = late.position == early.position
                               ? fmt::format("overlaps {}, must come after it", to_text(early.action))
                               : fmt::format("comes before {}, must come after it (position {})",
                                             to_text(early.action), early.position);
  return broken_at(program, rank, static_cast<std::size_t>(late.position), late.action, rule);
}

/// Checks that the actions of a unit come in the order F, then B or I, then W. An R must come between the F
/// and the B or I.
Checked check_stage_order(const Program& program, const UnitTable& table, std::int32_t stage,
                          std::int32_t unit) {
  if (program.placement.stages[index(stage)].is_forward_only()) return {};
  const Positions& at = table.at(stage, unit);
  const auto placed = [&](ActionKind kind, std::int32_t position) {
    return Placed{.action = compute_action(kind, stage, unit), .position = position};
  };
  const bool split = at.backward == UnitTable::kAbsent;
  const Placed forward = table.worker(stage, unit, Flow::activation);
  const Placed gradient = table.worker(stage, unit, Flow::gradient);
  if (Checked order = check_after(program, forward, gradient); !order) return order;
  // I and W of one group are the two halves of a B, so they can start together.
  if (split && at.backward_weight < at.backward_input) {
    return check_after(program, gradient, placed(ActionKind::backward_weight, at.backward_weight));
  }
  if (at.recompute == UnitTable::kAbsent) return {};
  const Placed recompute = placed(ActionKind::recompute, at.recompute);
  if (Checked order = check_after(program, forward, recompute); !order) return order;
  return check_after(program, recompute, gradient);
}

/// Checks an edge between two stages on one rank. No message is sent, so the producer must come before the
/// consumer in the list.
Checked check_local_edge(const Program& program, const UnitTable& table, const StageEdge& edge,
                         std::int32_t unit) {
  if (program.placement.rank_of(edge.from, unit) != program.placement.rank_of(edge.to, unit)) return {};
  const auto worker = [&](std::int32_t stage, Flow flow) { return table.worker(stage, unit, flow); };
  if (carries(program.placement, edge, Flow::activation)) {
    Checked order =
        check_after(program, worker(edge.from, Flow::activation), worker(edge.to, Flow::activation));
    if (!order) return order;
  }
  if (!carries(program.placement, edge, Flow::gradient)) return {};
  return check_after(program, worker(edge.to, Flow::gradient), worker(edge.from, Flow::gradient));
}

}  // namespace

Placed UnitTable::worker(std::int32_t stage, std::int32_t unit, Flow flow) const {
  const Positions& positions = at(stage, unit);
  if (flow == Flow::activation) {
    return {.action = compute_action(ActionKind::forward, stage, unit), .position = positions.forward};
  }
  const auto kind =
      positions.backward == UnitTable::kAbsent ? ActionKind::backward_input : ActionKind::backward;
  return {.action = compute_action(kind, stage, unit), .position = positions.gradient()};
}

tl::expected<UnitTable, std::string> tabulate_units(const Program& program) {
  if (Checked counts = check_forward_counts(program); !counts) return tl::unexpected(counts.error());
  UnitTable table;
  table.units = program.unit_count();
  table.cells.resize(program.placement.stages.size() * static_cast<std::size_t>(table.units));
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    if (Checked filled = fill(table, program, rank); !filled) return tl::unexpected(filled.error());
  }
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    for (std::int32_t unit = 0; unit < table.units; ++unit) {
      Checked complete = check_complete(program, stage, unit, table.at(stage, unit));
      if (!complete) return tl::unexpected(complete.error());
    }
  }
  return table;
}

Checked check_versions(const Program& program) {
  if (program.mixed_versions) return {};
  const auto units = static_cast<std::size_t>(program.unit_count());
  const auto cell = [&](const Action& action) {
    return static_cast<std::size_t>(action.stage) * units + static_cast<std::size_t>(action.microbatch);
  };
  // All F are collected first, so that this check does not depend on the order of the actions.
  std::vector<std::int32_t> of_forward(program.placement.stages.size() * units, 0);
  for (const std::vector<Action>& actions : program.ranks) {
    for (const Action& action : actions) {
      if (action.kind == ActionKind::forward) of_forward[cell(action)] = action.weight_version;
    }
  }
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    const std::vector<Action>& actions = program.ranks[static_cast<std::size_t>(rank)];
    for (std::size_t position = 0; position < actions.size(); ++position) {
      const Action& action = actions[position];
      if (!has_weight_version(action.kind) || action.weight_version == of_forward[cell(action)]) continue;
      return broken_at(
          program, rank, position, action,
          fmt::format("runs with weight version {}, must run with version {} of its F; a program "
                      "that may mix them needs the line `versions mixed`",
                      action.weight_version, of_forward[cell(action)]));
    }
  }
  return {};
}

Checked check_order(const Program& program, const UnitTable& table) {
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    for (std::int32_t unit = 0; unit < table.units; ++unit) {
      Checked order = check_stage_order(program, table, stage, unit);
      if (!order) return order;
    }
  }
  for (const StageEdge& edge : stage_edges(program)) {
    for (std::int32_t unit = 0; unit < table.units; ++unit) {
      if (Checked order = check_local_edge(program, table, edge, unit); !order) return order;
    }
  }
  return {};
}

// Checks the messages of a lowered program. Along an edge a>b each microbatch has an activation (SEND_F of a,
// RECV_F of b) and a gradient (SEND_B of b, RECV_B of a). check_actions() has already checked that each
// transfer is on the rank of its stage. Tests: tests/schedules/validate_test.cpp.

namespace {

/// The two ends of a message, as positions in the lists of its two ranks.
struct Ends {
  std::int32_t send = UnitTable::kAbsent;
  std::int32_t recv = UnitTable::kAbsent;
};

/// A check of all messages in two steps. The first step enters every SEND and RECV in a table, which has a
/// row for each edge and flow and a column for each unit. The second step looks up each message that the
/// program must have.
class TransferCheck {
 public:
  TransferCheck(const Program& program, const UnitTable& table)
      : program_(program),
        table_(table),
        edges_(stage_edges(program)),
        ends_(2 * edges_.size() * static_cast<std::size_t>(table.units)) {}

  Checked run();

 private:
  Checked collect(std::int32_t rank);
  Checked check_message(std::size_t edge, Flow flow, std::int32_t unit);
  Checked check_present(const Action& send, const Action& recv, const Placed& consumer,
                        const Ends& ends) const;
  Ends& ends_of(std::size_t edge, Flow flow, std::int32_t unit) {
    const std::size_t row = 2 * edge + static_cast<std::size_t>(flow);
    return ends_[row * static_cast<std::size_t>(table_.units) + static_cast<std::size_t>(unit)];
  }
  std::int32_t rank_of(const Action& action) const {
    return program_.placement.rank_of(action.stage, action.microbatch);
  }

  const Program& program_;
  const UnitTable& table_;
  std::vector<StageEdge> edges_;
  std::vector<Ends> ends_;
};

Checked TransferCheck::run() {
  for (std::int32_t rank = 0; rank < program_.rank_count(); ++rank) {
    if (Checked collected = collect(rank); !collected) return collected;
  }
  for (std::size_t edge = 0; edge < edges_.size(); ++edge) {
    for (std::int32_t unit = 0; unit < table_.units; ++unit) {
      if (Checked activation = check_message(edge, Flow::activation, unit); !activation) return activation;
      if (Checked gradient = check_message(edge, Flow::gradient, unit); !gradient) return gradient;
    }
  }
  return {};
}

/// Enters the rank's transfers in the table. Returns a fault if a transfer belongs to no edge, stays on one
/// rank, or appears twice.
Checked TransferCheck::collect(std::int32_t rank) {
  const std::vector<Action>& actions = program_.ranks[static_cast<std::size_t>(rank)];
  for (std::size_t position = 0; position < actions.size(); ++position) {
    const Action& action = actions[position];
    if (!is_transfer(action.kind)) continue;
    const StageEdge edge = edge_of(action);
    // check_edges() has checked that the edges are sorted.
    const auto found = std::lower_bound(edges_.begin(), edges_.end(), edge);
    if (found == edges_.end() || !found->joins_same(edge)) {
      return broken_at(program_, rank, position, action,
                       fmt::format("belongs to a stage edge {}>{}, must belong to one that the program has",
                                   edge.from, edge.to));
    }
    if (!carries(program_.placement, *found, flow_of(action.kind))) {
      return broken_at(
          program_, rank, position, action,
          fmt::format("belongs to the stage edge {}>{}, which carries no {}; delete the message", edge.from,
                      edge.to, flow_of(action.kind) == Flow::activation ? "activation" : "gradient"));
    }
    if (program_.placement.rank_of(action.peer, action.microbatch) == rank) {
      return broken_at(
          program_, rank, position, action,
          fmt::format("is a message to its own rank, which must have none: stages {} and {} are both "
                      "here",
                      action.stage, action.peer));
    }
    Ends& ends =
        ends_of(static_cast<std::size_t>(found - edges_.begin()), flow_of(action.kind), action.microbatch);
    std::int32_t& end = is_send(action.kind) ? ends.send : ends.recv;
    if (end != UnitTable::kAbsent) {
      return broken_at(
          program_, rank, position, action,
          fmt::format("comes a second time, must come once (before at position {}); delete one", end));
    }
    end = static_cast<std::int32_t>(position);
  }
  return {};
}

/// Checks that a message between ranks has one SEND and one RECV. The SEND must come after its producer, and
/// the RECV before its consumer. Edges between stages of one rank have no messages, so check_order() checks
/// them.
Checked TransferCheck::check_message(std::size_t edge, Flow flow, std::int32_t unit) {
  std::int32_t from = edges_[edge].from;
  std::int32_t to = edges_[edge].to;
  if (!carries(program_.placement, edges_[edge], flow)) return {};
  if (program_.placement.rank_of(from, unit) == program_.placement.rank_of(to, unit)) return {};
  if (flow == Flow::gradient) std::swap(from, to);
  const StageMessage message{.flow = flow, .from = from, .to = to, .microbatch = unit};
  const Action send = send_of(message);
  const Action recv = recv_of(message);
  const Placed producer = table_.worker(from, unit, flow);
  const Placed consumer = table_.worker(to, unit, flow);
  const Ends& ends = ends_of(edge, flow, unit);
  if (Checked present = check_present(send, recv, consumer, ends); !present) return present;
  if (ends.send < producer.position) {
    return broken_at(program_, rank_of(send), static_cast<std::size_t>(ends.send), send,
                     fmt::format("comes before {}, must come after it (position {})",
                                 to_text(producer.action), producer.position));
  }
  if (ends.recv > consumer.position) {
    return broken_at(program_, rank_of(recv), static_cast<std::size_t>(ends.recv), recv,
                     fmt::format("comes after {}, must come before it (position {})",
                                 to_text(consumer.action), consumer.position));
  }
  return {};
}

/// Returns a fault if a message has no SEND or no RECV. If one end exists, the fault names this end.
/// Otherwise it names the action that needs the message.
Checked TransferCheck::check_present(const Action& send, const Action& recv, const Placed& consumer,
                                     const Ends& ends) const {
  if (ends.send == UnitTable::kAbsent && ends.recv == UnitTable::kAbsent) {
    return broken_at(program_, rank_of(consumer.action), index(consumer.position), consumer.action,
                     fmt::format("gets nothing from stage {}, must have {} on rank {} and {} on rank {}",
                                 send.stage, to_text(send), rank_of(send), to_text(recv), rank_of(recv)));
  }
  if (ends.recv == UnitTable::kAbsent) {
    return broken_at(
        program_, rank_of(send), static_cast<std::size_t>(ends.send), send,
        fmt::format("has no matching RECV, must have {} on rank {}", to_text(recv), rank_of(recv)));
  }
  if (ends.send == UnitTable::kAbsent) {
    return broken_at(
        program_, rank_of(recv), static_cast<std::size_t>(ends.recv), recv,
        fmt::format("has no matching SEND, must have {} on rank {}", to_text(send), rank_of(send)));
  }
  return {};
}

}  // namespace

Checked check_transfers(const Program& program, const UnitTable& table) {
  if (!has_transfers(program)) return {};
  return TransferCheck(program, table).run();
}

// Checks the WAITs of each rank's list. A WAIT names what the rank has started before:
//
//   0F0 0SEND_F0 0F1 ... 0B0 0WAIT_SEND_F0 ... 0REDUCE_GRAD 1B3 0WAIT_REDUCE_GRAD
//       ^                    |                 ^                |
//       +--------------------+                 +----------------+
//
// Tested by waits_test.cpp of tests/sim/.

namespace {

/// A check of the WAITs in the list of one rank.
class WaitCheck {
 public:
  WaitCheck(const Program& program, const UnitTable& table, const StageNeighbours& neighbours,
            std::int32_t rank)
      : program_(program), table_(table), neighbours_(neighbours), rank_(rank) {}

  Checked run() {
    const std::vector<Action>& actions = program_.ranks[index(rank_)];
    const bool has_messages = has_transfers(program_);
    for (std::size_t position = 0; position < actions.size(); ++position) {
      const Action& action = actions[position];
      if (is_send(action.kind)) ++sent_[key_of(action.kind, action)];
      if (action.kind == ActionKind::reduce_grad) reduced_.insert(action.stage);
      if (!is_wait(action.kind)) continue;
      std::string broken;
      if (is_send_wait(action.kind)) {
        broken = has_messages ? broken_send_wait(action, position) : broken_before_lowering(action, position);
      } else if (reduced_.erase(action.stage) == 0) {
        broken = fmt::format(
            "must come after a {}REDUCE_GRAD for which no other {} waits, but there is none; delete it",
            action.stage, letters(action.kind));
      }
      if (!broken.empty()) return broken_at(program_, rank_, position, action, broken);
    }
    return {};
  }

 private:
  using Key = std::tuple<ActionKind, std::int32_t, std::int32_t>;

  static Key key_of(ActionKind kind, const Action& action) { return {kind, action.stage, action.microbatch}; }
  static Flow flow_awaited(const Action& wait) {
    return wait.kind == ActionKind::wait_send_forward ? Flow::activation : Flow::gradient;
  }

  /// Returns the number of messages that the stage of a WAIT sends to other ranks for the WAIT's
  /// microbatch.
  std::int64_t sends_in_all(const Action& wait) const {
    return std::ranges::count_if(
        takers_of(neighbours_, wait.stage, flow_awaited(wait)),
        [&](std::int32_t taker) { return program_.placement.rank_of(taker, wait.microbatch) != rank_; });
  }

  /// Returns the rule that a WAIT for SENDs breaks in any list, with or without messages. Returns an empty
  /// text if it breaks none.
  std::string broken_in_any_list(const Action& wait, std::size_t position) {
    if (sends_in_all(wait) == 0) {
      return fmt::format("waits for a {} of stage {}, which sends none to another rank; delete it",
                         letters(awaited_kind(wait.kind)), wait.stage);
    }
    const auto [first, is_new] = waited_.try_emplace(key_of(wait.kind, wait), position);
    if (is_new) return "";
    return fmt::format("comes a second time, must come once (before at position {}); delete one",
                       first->second);
  }

  std::string broken_send_wait(const Action& wait, std::size_t position) {
    if (std::string broken = broken_in_any_list(wait, position); !broken.empty()) return broken;
    const ActionKind awaited = awaited_kind(wait.kind);
    if (sent_[key_of(awaited, wait)] == sends_in_all(wait)) return "";
    return fmt::format("must come after every {}{}{}, for which it waits; move it behind them", wait.stage,
                       letters(awaited), wait.microbatch);
  }

  std::string broken_before_lowering(const Action& wait, std::size_t position) {
    if (std::string broken = broken_in_any_list(wait, position); !broken.empty()) return broken;
    const Placed producer = table_.worker(wait.stage, wait.microbatch, flow_awaited(wait));
    if (std::cmp_less(producer.position, position)) return "";
    return fmt::format("must come after {} (position {}), whose message it waits for; move it behind it",
                       to_text(producer.action), producer.position);
  }

  const Program& program_;
  const UnitTable& table_;
  const StageNeighbours& neighbours_;
  std::int32_t rank_;
  std::map<Key, std::int64_t> sent_;
  std::map<Key, std::size_t> waited_;
  std::set<std::int32_t> reduced_;  // stages with a REDUCE_GRAD for which no WAIT has waited
};

}  // namespace

Checked check_waits(const Program& program, const UnitTable& table) {
  const bool has_waits = std::ranges::any_of(program.ranks, [](const std::vector<Action>& list) {
    return std::ranges::any_of(list, [](const Action& action) { return is_wait(action.kind); });
  });
  if (!has_waits) return {};
  const StageNeighbours neighbours = stage_neighbours(program);
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    if (Checked checked = WaitCheck(program, table, neighbours, rank).run(); !checked) return checked;
  }
  return {};
}

}  // namespace penstock
