#pragma once
// Stage modules that compute nothing. Each action blocks its worker for the time in the cost table.

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

/// A random variation of durations. Each duration is multiplied by a factor drawn uniformly from [1 -
/// fraction, 1 + fraction]. The factor depends only on the seed and the action, so an action has the same
/// duration in every schedule and repeat.
struct Jitter {
  double fraction = 0;  ///< largest relative deviation of a duration from the cost table, 0 to 1
  std::uint64_t seed = 1;
};

/// Returns the time for which an overlapped group blocks its worker. A single action is a group of one.
Ns held_ns(const CostTable& costs, std::span<const Action> group, const Jitter& jitter);

/// A module that returns null payloads. It stores references to the costs and the clock, which must outlive
/// it.
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

/// Returns one module for each stage that a rank holds, indexed by rank and stage. If `only` is given,
/// returns the modules of that rank alone.
StageModules occupy_modules(const Program& program, const CostTable& costs, const Clock& clock,
                            const Jitter& jitter, std::optional<std::int32_t> only = std::nullopt);

}  // namespace penstock
