#pragma once
// The rank's list once before the first step, without a message: what all ranks learn by it are the layouts.

#include <cstdint>

#include "backend/cuda/device_codec.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/nccl/layouts.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// All references are good for the call.
struct RehearsalParts {
  const Program& program;
  const FlatProgram& flat;
  std::int32_t rank = 0;
  StageModules& modules;  ///< used up by it
  const Clock& clock;
  StreamView compute;
  const DeviceCodec& codec;
  Layouts& layouts;
  WaitLimits limits;  ///< for each thing that a peer has to tell
};

/// Runs the rank's modules on zeros that lie as its peers say, and says how its own tensors lie. Afterwards
/// `layouts` knows all that the rank sends, receives and sums. Throws what modules throw; Stopped;
/// std::runtime_error past a deadline.
void rehearse(const RehearsalParts& parts);

}  // namespace penstock
