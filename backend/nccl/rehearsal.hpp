#pragma once
// Runs the rank's list once before the first step, without messages, so that all ranks learn the layouts.

#include <cstdint>

#include "backend/cuda/device_codec.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/nccl/layouts.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The arguments of rehearse(). All references are valid during the call.
struct RehearsalParts {
  const Program& program;
  const FlatProgram& flat;
  std::int32_t rank = 0;
  StageModules& modules;  ///< cannot be used afterwards
  const Clock& clock;
  StreamView compute;
  const DeviceCodec& codec;
  Layouts& layouts;
  WaitLimits limits;  ///< limits of the wait for each layout that a peer publishes
};

/// Runs the rank's modules on zeros with the layouts that its peers publish, and publishes its own layouts.
/// Afterwards `layouts` knows everything that the rank sends, receives and sums. Throws what modules throw,
/// Stopped, and std::runtime_error after a deadline.
void rehearse(const RehearsalParts& parts);

}  // namespace penstock
