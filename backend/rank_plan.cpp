#include "backend/rank_plan.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "schedules/action.hpp"
#include "schedules/flat_program.hpp"

namespace penstock {
namespace {

/// By version of one stage: the position of its last use, or of the STEP that replaced it if that is later.
using LastUses = std::vector<std::int32_t>;

void note_use(LastUses& uses, const Action& action, std::int32_t position) {
  const auto version = static_cast<std::size_t>(action.weight_version);
  if (uses.size() <= version) uses.resize(version + 1, position);
  uses[version] = std::max(uses[version], position);
}

std::map<std::int32_t, std::vector<StageVersion>> last_uses(const FlatProgram& flat, std::int32_t begin,
                                                            std::int32_t end) {
  std::map<std::int32_t, LastUses> stages;
  std::map<std::int32_t, std::int32_t> steps;
  for (std::int32_t p = begin; p < end; ++p) {
    const Action& action = flat.actions[static_cast<std::size_t>(p)];
    const FlatOp op = flat.ops[static_cast<std::size_t>(p)];
    if (op != FlatOp::compute && op != FlatOp::leaf) continue;
    Action use = action;
    if (action.kind == ActionKind::step) use.weight_version = steps[action.stage]++;
    note_use(stages[action.stage], use, p);
  }
  std::map<std::int32_t, std::vector<StageVersion>> dropped;
  for (const auto& [stage, uses] : stages) {
    for (std::int32_t version = 0; version < steps[stage]; ++version) {
      dropped[uses[static_cast<std::size_t>(version)]].push_back({stage, version});
    }
  }
  return dropped;
}

}  // namespace

Flow flow_of(const Action& transfer) {
  const bool sends = is_send(transfer.kind);
  return {
      .gradient = transfer.kind == ActionKind::send_backward || transfer.kind == ActionKind::recv_backward,
      .from = sends ? transfer.stage : transfer.peer,
      .to = sends ? transfer.peer : transfer.stage,
      .microbatch = transfer.microbatch};
}

RankPlan plan_of(const FlatProgram& flat, std::int32_t rank) {
  const std::int32_t begin = flat.rank_begin[static_cast<std::size_t>(rank)];
  const std::int32_t end = flat.rank_begin[static_cast<std::size_t>(rank) + 1];
  RankPlan plan{.messages = {}, .recomputed = {}, .dropped_after = last_uses(flat, begin, end)};
  for (std::int32_t p = begin; p < end; ++p) {
    const Action& action = flat.actions[static_cast<std::size_t>(p)];
    if (flat.ops[static_cast<std::size_t>(p)] == FlatOp::send) {
      plan.messages[flow_of(action)] = flat.message[static_cast<std::size_t>(p)];
    }
    if (action.kind == ActionKind::recompute) plan.recomputed.insert({action.stage, action.microbatch});
  }
  return plan;
}

}  // namespace penstock
