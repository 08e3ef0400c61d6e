// The family of occupy modules, which block their workers for the stated time and need no library.
// backend/torch and backend/cuda have the families that compute.
//
// An occupy module blocks its worker for the time in the cost table and sends null payloads. The actions of
// an overlapped pair form a group, and only its first action blocks, for the time of the group. Jitter is a
// hash of the seed and the action and uses no generator with a state. The same action therefore takes the
// same time on every rank, in every order and in every repeat. Tests: tests/backend/transport_test.cpp.

#include "backend/executor/module_family.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/stage_module.hpp"
#include "backend/executor/transport.hpp"
#include "report/print/units.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

namespace {

/// Returns a random number in [0, 1), uniformly distributed. It depends only on the seed and the action.
double draw(std::uint64_t seed, const Action& action) {
  std::uint64_t bits = mixed(seed);
  bits = mixed(bits ^ static_cast<std::uint64_t>(action.kind));
  bits = mixed(bits ^ static_cast<std::uint64_t>(action.stage));
  bits = mixed(bits ^ static_cast<std::uint64_t>(action.microbatch));
  // A double stores integers of 53 bits exactly.
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

Ns held_ns(const CostTable& costs, std::span<const Action> group, const Jitter& jitter) {
  const Ns stated = group_duration_ns(costs, group);
  if (jitter.fraction == 0) return stated;
  const double factor = 1 + jitter.fraction * (2 * draw(jitter.seed, group.front()) - 1);
  return std::llround(static_cast<double>(stated) * factor);
}

void OccupyModule::occupy(const ComputeCall& call) const {
  // The first action has already blocked for the time of the whole group.
  if (!call.first_of_group) return;
  const Ns held = held_ns(costs_, call.group, jitter_);
  if (held > 0) clock_.hold_for(held, call.stop);
}

std::vector<Payload> OccupyModule::forward(const ComputeCall& call, std::vector<Payload>) {
  occupy(call);
  return std::vector<Payload>(call.outputs);
}

std::vector<Payload> OccupyModule::backward(const ComputeCall& call, std::vector<Payload>) {
  occupy(call);
  return std::vector<Payload>(call.outputs);
}

std::vector<Payload> OccupyModule::backward_input(const ComputeCall& call, std::vector<Payload>) {
  occupy(call);
  return std::vector<Payload>(call.outputs);
}

StageModules occupy_modules(const Program& program, const CostTable& costs, const Clock& clock,
                            const Jitter& jitter, std::optional<std::int32_t> only) {
  StageModules modules(static_cast<std::size_t>(program.rank_count()));
  for (std::size_t stage = 0; stage < program.placement.stages.size(); ++stage) {
    for (const std::int32_t rank : program.placement.stages[stage].ranks) {
      if (rank != only.value_or(rank)) continue;
      auto& of_rank = modules[static_cast<std::size_t>(rank)];
      of_rank.resize(static_cast<std::size_t>(program.stage_count()));
      of_rank[stage] = std::make_unique<OccupyModule>(costs, clock, jitter);
    }
  }
  return modules;
}

std::string OccupyFamily::description() const {
  std::string text = "occupy modules: each action holds its worker for the time that the costs say";
  if (jitter_.fraction > 0) {
    text += fmt::format(", which varies by {} either way (seed {})", format_percent(jitter_.fraction),
                        jitter_.seed);
  }
  return text;
}

StageModules OccupyFamily::modules(std::optional<std::int32_t> rank, const Clock& clock) const {
  return occupy_modules(experiment_.program, experiment_.costs, clock, jitter_, rank);
}

// Replaces the bytes of the cost table by the bytes that the modules report. The bytes of an edge come from
// the two stages that it connects. One reports the size of the activation that it sends, and the other the
// size of the gradient. All microbatches have equal sizes.

CostTable with_stage_bytes(CostTable costs, const Program& program, const std::vector<StageBytes>& bytes) {
  for (std::size_t stage = 0; stage < bytes.size(); ++stage) {
    StageCost& cost = costs.stages[stage];
    const StageBytes& found = bytes[stage];
    cost.input = found.input;
    cost.kept = found.kept;
    cost.released_by_input = found.released_by_input;
    cost.weights = found.weights;
    cost.gradients = found.gradients;
    cost.optimizer_state = found.optimizer_state;
  }
  // Costs of single microbatches would override the costs of the stages, so they are removed.
  costs.microbatches.clear();
  costs.edges.clear();
  for (const StageEdge& edge : stage_edges(program)) {
    costs.edges.push_back({.activation = bytes[static_cast<std::size_t>(edge.from)].activation,
                           .gradient = bytes[static_cast<std::size_t>(edge.to)].gradient});
  }
  leave_out_backwards(costs, program);
  return costs;
}

}  // namespace penstock
