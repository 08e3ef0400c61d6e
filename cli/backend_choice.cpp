#include "cli/backend_choice.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/in_process_transport.hpp"
#include "backend/measured_run.hpp"
#include "backend/module_family.hpp"
#include "backend/occupy_module.hpp"
#include "cli/extensions.hpp"
#include "cli/other_executable.hpp"
#include "cli/outcome.hpp"
#include "scenarios/experiment.hpp"
#include "schedules/flat_program.hpp"
#include "schedules/rendezvous_walk.hpp"
#include "sim/message_costs.hpp"

namespace penstock {

std::optional<Failure> hand_over(std::string_view command, const std::string& backend,
                                 const Experiment& experiment, const Invocation& invocation) {
  const Extensions& extensions = invocation.extensions;
  const bool of_core = backend == "cpu-thread" || backend == "cpu-process";
  if (!of_core && !extensions.backends.contains(backend)) {
    return become("penstock-cuda", invocation.arguments, fmt::format("{}: --backend {}", command, backend));
  }
  if (of_core && experiment.network && !extensions.network) {
    return become("penstock-torch", invocation.arguments,
                  fmt::format("{}: the network {}", command, experiment.network->spec.name));
  }
  return std::nullopt;
}

tl::expected<std::unique_ptr<ModuleFamily>, std::string> family_of(const Experiment& experiment,
                                                                   const Jitter& jitter,
                                                                   const Extensions& extensions) {
  if (!experiment.network) return std::make_unique<OccupyFamily>(experiment, jitter);
  return extensions.network(experiment);
}

PaceOfLinks pace_of_links(const Experiment& experiment) {
  return [&experiment](const FlatProgram& flat) {
    WalkDurations durations = walk_durations(experiment, flat);
    return LinkPace{.hold = std::move(durations.hold), .latency = std::move(durations.latency)};
  };
}

}  // namespace penstock
