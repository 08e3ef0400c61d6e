// Occupy modules with another clock. An action of 5 ms becomes a kernel that runs for 5 ms in the worker's
// partition. Actions then take exactly the time in the scenario. The time between them (launches, waits,
// copies) is the real time of the GPU.

#include "backend/cuda/occupy_family.hpp"

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "backend/cuda/kernels.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/occupy_module.hpp"
#include "report/print/units.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Launches a kernel that ends by itself. No thread waits here, so the stop token is not needed.
void PartitionClock::hold_for(Ns duration_ns, const std::stop_token&) const {
  const std::chrono::nanoseconds whole(std::llround(static_cast<double>(duration_ns) * scale_));
  use_device(place_.stream.device);
  launch_hold(static_cast<std::uint64_t>(whole.count()), place_.stream.stream);
}

CudaOccupyFamily::CudaOccupyFamily(const Experiment& experiment, const Jitter& jitter, double time_scale,
                                   const std::vector<std::optional<CudaPlace>>& places)
    : experiment_(experiment), jitter_(jitter) {
  for (const auto& place : places) {
    clocks_.push_back(place ? std::make_unique<PartitionClock>(time_scale, *place) : nullptr);
  }
}

std::string CudaOccupyFamily::description() const {
  std::string text =
      "occupy kernels: each action holds its worker's part of a GPU for the time that the costs say";
  if (jitter_.fraction > 0) {
    text += fmt::format(", which varies by {} either way (seed {})", format_percent(jitter_.fraction),
                        jitter_.seed);
  }
  return text;
}

StageModules CudaOccupyFamily::modules(std::optional<std::int32_t>, const Clock&) const {
  const Program& program = experiment_.program;
  StageModules modules(static_cast<std::size_t>(program.rank_count()));
  for (auto& of_rank : modules) of_rank.resize(static_cast<std::size_t>(program.stage_count()));
  for (std::size_t stage = 0; stage < program.placement.stages.size(); ++stage) {
    for (const std::int32_t rank : program.placement.stages[stage].ranks) {
      const auto& clock = clocks_[static_cast<std::size_t>(rank)];
      // Another process has this rank.
      if (clock == nullptr) continue;
      modules[static_cast<std::size_t>(rank)][stage] =
          std::make_unique<OccupyModule>(experiment_.costs, *clock, jitter_);
    }
  }
  return modules;
}

}  // namespace penstock
