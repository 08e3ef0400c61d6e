#pragma once
// What `penstock run` and `penstock calibrate` have in common: which executable can, what ranks compute with,
// how long links take.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "backend/measured_run.hpp"
#include "backend/module_family.hpp"
#include "backend/occupy_module.hpp"
#include "cli/extensions.hpp"
#include "cli/outcome.hpp"
#include "scenarios/experiment.hpp"

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

/// As the experiment's cluster has them; the experiment must outlive the answer.
PaceOfLinks pace_of_links(const Experiment& experiment);

}  // namespace penstock
