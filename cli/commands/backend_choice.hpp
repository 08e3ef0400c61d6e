#pragma once
// Chooses the executable and the modules that a run needs.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "backend/executor/module_family.hpp"
#include "backend/executor/occupy_module.hpp"
#include "cli/extensions.hpp"
#include "cli/outcome.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock {

/// Returns nothing if this executable has the backend and can compute the experiment's network. Otherwise it
/// becomes the executable that can. If there is none, it returns the failure, which names `command`.
std::optional<UserError> hand_over(std::string_view command, const std::string& backend,
                                   const Experiment& experiment, const Invocation& invocation);

/// Returns the family of the experiment's network, or of occupy modules if it has none. hand_over() must have
/// returned nothing. The experiment must outlive the family. Error: what the network lacks.
tl::expected<std::unique_ptr<ModuleFamily>, std::string> family_of(const Experiment& experiment,
                                                                   const Jitter& jitter,
                                                                   const Extensions& extensions);

}  // namespace penstock
