// torchgpipe's published benchmarks (arXiv 2004.09910): the cost of recomputation and the gain from
// microbatches. Only ratios of speeds are compared, because the times of the layers on its machine are not
// published. R = F and B = 2 F are assumed.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "sim/published/reproduce.hpp"
#include "sim/published/reproduce_runs.hpp"
#include "topology/unit_factors.hpp"

namespace penstock {
namespace {

/// Returns the microbatches per unit of time of equal stages that share the 3 units of a microbatch.
double rate(std::int32_t stages, std::int32_t microbatches, Checkpoint checkpoint) {
  const double share = 1.0 / stages;
  const Shape shape{.stages = stages,
                    .microbatches = microbatches,
                    .checkpoint = checkpoint,
                    .recompute = RecomputeTiming::late};
  const UnitTimes times{.forward = share, .backward = 2 * share, .recompute = share};
  return microbatches /
         makespan_units(predicted_run("gpipe", shape, equal_stages(static_cast<std::size_t>(stages), times)));
}

/// Returns the speed relative to one device that recomputes nothing. With one of 2 microbatches recomputed it
/// is 6 / 7 = 0.857.
double speed_up(std::int32_t stages, std::int32_t microbatches, Checkpoint checkpoint) {
  return rate(stages, microbatches, checkpoint) / rate(1, 1, Checkpoint::never);
}

}  // namespace

std::vector<ReproducedFigure> reproduce_torchgpipe() {
  const auto gain = [](std::int32_t stages) {
    return rate(stages, 32, Checkpoint::except_last) / rate(stages, 4, Checkpoint::except_last);
  };
  return {
      equal(Tolerance::ratio, "U-Net, 1 device, 2 microbatches, all but the last recomputed: speed", 0.858,
            speed_up(1, 2, Checkpoint::except_last)),
      equal(Tolerance::ratio, "ResNet-101, 1 device, 2 microbatches, all but the last recomputed: speed",
            0.853, speed_up(1, 2, Checkpoint::except_last)),
      equal(Tolerance::ratio, "AmoebaNet-D (18, 256), 4 devices: M = 32 over M = 4", 72.412 / 44.543,
            gain(4)),
      equal(Tolerance::ratio, "AmoebaNet-D (18, 256), 2 devices: M = 32 over M = 4", 47.386 / 41.133,
            gain(2)),
      at_least("AmoebaNet-D (18, 256), 8 devices: M = 32 over M = 4", 132.413 / 70.065, gain(8)),
      equal(Tolerance::ratio, "AmoebaNet-D (18, 256), M = 1: 4 devices over 2", 26.827 / 26.733,
            rate(4, 1, Checkpoint::always) / rate(2, 1, Checkpoint::always)),
      equal(Tolerance::ratio, "AmoebaNet-D (18, 256), M = 1: 8 devices over 2", 24.918 / 26.733,
            rate(8, 1, Checkpoint::always) / rate(2, 1, Checkpoint::always)),
      at_least("ResNet-101, 2 devices, M = 1667: speed-up", 1.414, speed_up(2, 1667, Checkpoint::always)),
      at_least("ResNet-101, 4 devices, M = 256: speed-up", 2.774, speed_up(4, 256, Checkpoint::always)),
      at_least("ResNet-101, 8 devices, M = 150: speed-up", 4.294, speed_up(8, 150, Checkpoint::always)),
      at_least("U-Net, 2 devices, M = 32: speed-up", 1.246, speed_up(2, 32, Checkpoint::except_last)),
      at_least("U-Net, 4 devices, M = 16: speed-up", 2.352, speed_up(4, 16, Checkpoint::except_last)),
      at_least("U-Net, 8 devices, M = 40: speed-up", 3.105, speed_up(8, 40, Checkpoint::except_last)),
      equal(Tolerance::size, "AmoebaNet-D (18, 208), 81.5 M parameters at 12 bytes: GiB", 0.91,
            12 * 81.5e6 / kBytesPerGibibyte),
      equal(Tolerance::size, "AmoebaNet-D (18, 416), 319.0 M parameters at 12 bytes: GiB", 3.57,
            12 * 319.0e6 / kBytesPerGibibyte),
      equal(Tolerance::size, "AmoebaNet-D (18, 544), 542.7 M parameters at 12 bytes: GiB", 6.07,
            12 * 542.7e6 / kBytesPerGibibyte),
      equal(Tolerance::size, "AmoebaNet-D (36, 544), 1.06 B parameters at 12 bytes: GiB", 11.8,
            12 * 1.06e9 / kBytesPerGibibyte),
      equal(Tolerance::size, "AmoebaNet-D (72, 512), 1.84 B parameters at 12 bytes: GiB", 20.62,
            12 * 1.84e9 / kBytesPerGibibyte),
  };
}

}  // namespace penstock
