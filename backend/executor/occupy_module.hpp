#pragma once
// Stage modules without mathematics: each action holds its worker for as long as the cost table says.

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

/// Uneven durations: each is multiplied by a factor drawn evenly from [1 - fraction, 1 + fraction]. The draw
/// depends on the seed and the action alone, so that it is the same in every schedule and repeat.
struct Jitter {
  double fraction = 0;  ///< 0 <= fraction <= 1
  std::uint64_t seed = 1;
};

/// How long an overlapped group (of one action: that action) is held.
Ns held_ns(const CostTable& costs, std::span<const Action> group, const Jitter& jitter);

/// Sends null payloads. Costs and clock must outlive it.
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

/// One on each rank for each stage that it holds; with a rank, on that one only.
StageModules occupy_modules(const Program& program, const CostTable& costs, const Clock& clock,
                            const Jitter& jitter, std::optional<std::int32_t> only = std::nullopt);

}  // namespace penstock
