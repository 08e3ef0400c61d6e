#pragma once
// Runs the rank's list once before the first step, without sending tensors, so that all ranks learn the
// layouts.

#include <cstdint>

#include "backend/cuda/device_codec.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/nccl/layouts.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The arguments of rehearse(). All references must be valid during the call.
struct RehearsalParts {
  const Program& program;
  const FlatProgram& flat;
  std::int32_t rank = 0;
  StageModules& modules;  ///< stage modules, which cannot be used after the call
  const Clock& clock;
  StreamView compute;
  const DeviceCodec& codec;
  Layouts& layouts;
  WaitLimits limits;  ///< limits of the wait for each layout of a peer
};

/// Runs the rank's modules and publishes the layouts of their outputs. The inputs are zeros in the layouts
/// that the peers publish. Afterwards `layouts` knows the layouts of all messages of this rank. Throws what
/// modules throw, Stopped, or std::runtime_error after a deadline.
void rehearse(const RehearsalParts& parts);

}  // namespace penstock
