// A transfer is named by the stage at its own end, and a gradient flows against its edge a>b:
//
//   aSEND_F ---- activation ---> bRECV_F
//   aRECV_B <---- gradient ----- bSEND_B

#include "schedules/ir/needs.hpp"

#include <cstddef>
#include <cstdint>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

StageMessage message_of(const Action& transfer) {
  const bool sends = is_send(transfer.kind);
  return {.flow = flow_of(transfer.kind),
          .from = sends ? transfer.stage : transfer.peer,
          .to = sends ? transfer.peer : transfer.stage,
          .microbatch = transfer.microbatch};
}

StageEdge edge_of(const StageMessage& message) {
  const bool along = message.flow == Flow::activation;
  return {.from = along ? message.from : message.to, .to = along ? message.to : message.from};
}

Action send_of(const StageMessage& message) {
  const bool activation = message.flow == Flow::activation;
  return {.kind = activation ? ActionKind::send_forward : ActionKind::send_backward,
          .stage = message.from,
          .microbatch = message.microbatch,
          .peer = message.to};
}

Action recv_of(const StageMessage& message) {
  const bool activation = message.flow == Flow::activation;
  return {.kind = activation ? ActionKind::recv_forward : ActionKind::recv_backward,
          .stage = message.to,
          .microbatch = message.microbatch,
          .peer = message.from};
}

Bytes released_activations(const StageCost& cost, ActionKind kind) {
  if (kind == ActionKind::backward) return cost.kept;
  if (kind == ActionKind::backward_input) return cost.released_by_input;
  return kind == ActionKind::backward_weight ? cost.kept - cost.released_by_input : 0;
}

void VersionLives::note(const Action& action, std::int32_t position) {
  if (action.kind == ActionKind::step) {
    lives_.back().replaced_by = position;
    lives_.push_back({.made_by = position});
  } else if (has_weight_version(action.kind)) {
    const std::size_t version = index(action.weight_version);
    if (version < lives_.size()) lives_[version].last_used_by = position;
  }
}

}  // namespace penstock
