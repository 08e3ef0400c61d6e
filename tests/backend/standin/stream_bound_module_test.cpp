// A bound module is called inside its worker's stream, each time, and never outside.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backend/cuda/stream_bound_module.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/payload.hpp"
#include "backend/executor/stage_module.hpp"
#include "schedules/ir/action.hpp"
#include "tests/backend/standin/verdict.hpp"

namespace penstock {
namespace {

/// Which worker's stream is the current one of the library; kNobody: none.
constexpr std::int32_t kNobody = -1;
std::int32_t current = kNobody;

/// Writes down in whose stream each call was.
class Witness : public StageModule {
 public:
  explicit Witness(std::vector<std::int32_t>& seen) : seen_(seen) {}
  std::vector<Payload> forward(const ComputeCall&, std::vector<Payload> inputs) override {
    note();
    return inputs;
  }
  std::vector<Payload> backward(const ComputeCall&, std::vector<Payload> gradients) override {
    note();
    return gradients;
  }
  std::vector<Payload> backward_input(const ComputeCall&, std::vector<Payload> gradients) override {
    note();
    return gradients;
  }
  void backward_weight(const ComputeCall&) override { note(); }
  void recompute(const ComputeCall&) override { note(); }
  void step(const ComputeCall&) override { note(); }
  void drop_version(std::int32_t) override { note(); }
  Payload contribution(ActionKind) override {
    note();
    return nullptr;
  }
  void accept(ActionKind, std::span<const SharedPayload>) override { note(); }
  void reshard() override { note(); }

 private:
  void note() { seen_.push_back(current); }
  std::vector<std::int32_t>& seen_;
};

void call_all(StageModule& module) {
  const Action action{};
  const ComputeCall call{
      .action = action, .group = std::span(&action, 1), .first_of_group = true, .stop = {}};
  module.forward(call, {});
  module.backward(call, {});
  module.backward_input(call, {});
  module.backward_weight(call);
  module.recompute(call);
  module.step(call);
  module.drop_version(0);
  module.contribution(ActionKind::reduce_grad);
  module.accept(ActionKind::reduce_grad, {});
  module.reshard();
}

TEST(StandInStreamBoundModule, EachCallIsInsideTheStreamOfItsWorker) {
  const auto verdict = standin::controlled({.devices = 2}, [] {
    const std::vector<CudaWorkers> workers = [] {
      std::vector<CudaWorkers> made;
      for (const std::int32_t device : {0, 1}) made.push_back(CudaWorkers::whole_device(device));
      return made;
    }();
    std::vector<std::int32_t> seen;
    StageModules modules(2);
    modules[0].resize(1);
    modules[1].push_back(std::make_unique<Witness>(seen));
    modules =
        bound_to_streams(std::move(modules), {std::nullopt, workers[1].place(0)}, [](const CudaPlace& place) {
          current = place.stream.device;
          return std::shared_ptr<void>(&current, [](void*) { current = kNobody; });
        });
    const bool leaves_out = modules[0][0] == nullptr;
    call_all(*modules[1][0]);
    const bool is_inside = seen == std::vector<std::int32_t>(10, 1);
    return std::string(leaves_out && is_inside && current == kNobody ? "good" : "bad");
  });
  EXPECT_EQ(verdict.answer, "good") << to_text(verdict);
}

}  // namespace
}  // namespace penstock
