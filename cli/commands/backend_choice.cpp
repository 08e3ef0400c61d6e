// Chooses the executable and the modules of a run. They follow from its backend and its network. This
// executable has the core's backends and occupy modules. For everything else the process becomes another
// executable (other_executable.hpp), so that users type one command whatever was built.

#include "cli/commands/backend_choice.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/executor/module_family.hpp"
#include "backend/executor/occupy_module.hpp"
#include "cli/extensions.hpp"
#include "cli/other_executable.hpp"
#include "cli/outcome.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock {

std::optional<UserError> hand_over(std::string_view command, const std::string& backend,
                                   const Experiment& experiment, const Invocation& invocation) {
  const Extensions& extensions = invocation.extensions;
  const bool of_core = backend == "cpu-thread" || backend == "cpu-process";
  // The backend is checked first, because the executable with GPUs also has networks.
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

}  // namespace penstock
