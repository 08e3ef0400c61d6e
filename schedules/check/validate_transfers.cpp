// Checks the messages of a lowered program. Along an edge a>b each microbatch has an activation (SEND_F of a,
// RECV_F of b) and a gradient (SEND_B of b, RECV_B of a). check_actions() has already checked that each
// transfer is on the rank of its stage. Tested by validate_test.cpp and must_fail_test.cpp.

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedules/check/validate_parts.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/edge_numbers.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// The two ends of a message, as positions in the lists of its two ranks.
struct Ends {
  std::int32_t send = UnitTable::kAbsent;
  std::int32_t recv = UnitTable::kAbsent;
};

/// A check in two steps. The first step enters every SEND and RECV in a table, with a row for each edge and
/// flow and a column for each unit. The second step looks up each message that the program must have.
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
    if (found == edges_.end() || *found != edge) {
      return broken_at(program_, rank, position, action,
                       fmt::format("belongs to a stage edge {}>{}, must belong to one that the program has",
                                   edge.from, edge.to));
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
/// the RECV before its consumer. check_order() checks edges inside a rank.
Checked TransferCheck::check_message(std::size_t edge, Flow flow, std::int32_t unit) {
  auto [from, to] = edges_[edge];
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

/// Reports a message without SEND or RECV. If one end exists, the report names it; otherwise it names the
/// action that needs the message.
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

}  // namespace penstock
