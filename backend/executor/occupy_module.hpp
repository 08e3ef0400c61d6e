#pragma once
// Stage modules without mathematics: each action holds its worker for the time in the cost table.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/stage_module.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Variation of durations. Each duration is multiplied by a factor drawn uniformly from [1 - fraction, 1 +
/// fraction]. The factor depends only on the seed and the action, so it is the same in every schedule and
/// repeat.
struct Jitter {
  double fraction = 0;  ///< half-width of the variation, 0 to 1
  std::uint64_t seed = 1;
};

/// Returns how long an overlapped group is held. A single action is a group of one.
Ns held_ns(const CostTable& costs, std::span<const Action> group, const Jitter& jitter);

/// A module that sends null payloads. It keeps references to the costs and the clock, which must outlive it.
class OccupyModule : public StageModule {
 public:
  OccupyModule(const CostTable& costs, const Clock& clock, const Jitter& jitter)
      : costs_(costs), clock_(clock), jitter_(jitter) {}

  std::vector<Payload> forward(const ComputeCall& call, std::vector<Payload> inputs) override;
  std::vector<Payload> backward(const ComputeCall& call, std::vector<Payload> gradients) override;
  std::vector<Payload> backward_input(const ComputeCall& call, std::vector<Payload> gradients) override;
  void backward_weight(const ComputeCall& call) override { occupy(call); }
  void recompute(const ComputeCall& call) override { occupy(call); }
  void step(const ComputeCall& call) override { occupy(call); }
  void drop_version(std::int32_t) override {}
  Payload contribution(ActionKind) override { return nullptr; }
  void accept(ActionKind, std::span<const SharedPayload>) override {}
  void reshard() override {}

 private:
  void occupy(const ComputeCall& call) const;

  const CostTable& costs_;
  const Clock& clock_;
  Jitter jitter_;
};

/// Returns a module on each rank for each stage that it holds. With `only`, returns only that rank's modules.
StageModules occupy_modules(const Program& program, const CostTable& costs, const Clock& clock,
                            const Jitter& jitter, std::optional<std::int32_t> only = std::nullopt);

}  // namespace penstock
