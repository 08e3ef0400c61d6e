// Which executable and which modules a run needs follow from two words: its backend and its network. Backends
// of the core and occupy modules are here; for everything else this process becomes an executable that has it
// (other_executable.hpp), so that the user types one command whatever was built.

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

std::optional<Failure> hand_over(std::string_view command, const std::string& backend,
                                 const Experiment& experiment, const Invocation& invocation) {
  const Extensions& extensions = invocation.extensions;
  const bool of_core = backend == "cpu-thread" || backend == "cpu-process";
  // The executable with the GPUs has networks, too, so it is asked for first.
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
