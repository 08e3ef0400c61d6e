#pragma once
// Which executable has what a run needs, and what its ranks compute with.

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

/// Nothing where this executable has the backend and can compute the experiment's network. Otherwise becomes
/// the one that can, and returns only the failure when there is none; `command` is named in it.
std::optional<Failure> hand_over(std::string_view command, const std::string& backend,
                                 const Experiment& experiment, const Invocation& invocation);

/// The network where the experiment has one (hand_over() has seen to it that this executable can), occupy
/// modules otherwise. The experiment must outlive it. Error: what the network lacks.
tl::expected<std::unique_ptr<ModuleFamily>, std::string> family_of(const Experiment& experiment,
                                                                   const Jitter& jitter,
                                                                   const Extensions& extensions);

}  // namespace penstock
