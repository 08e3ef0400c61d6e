#pragma once
// `penstock calibrate --from-log`: turns logs of training runs into rows of measured runs, and fits the
// constants of the device to them.

#include <string>
#include <string_view>
#include <vector>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/subcommand.hpp"

namespace penstock {

/// The flags about logs.
struct LogFlags {
  std::vector<std::string> logs;
  std::vector<std::string> configs;
};

/// Returns the files that the flags name.
std::vector<FileArgument> inputs_of(const LogFlags& logs, const InputFlags& input);

/// Declares --from-log and --config.
void add_log_flags(Subcommand app, LogFlags& flags);

/// Reads the logs, fits constants and writes the answer. `input` states what the logs do not say. It has no
/// file.
Outcome calibrate_from_logs(const LogFlags& logs, const InputFlags& input, const OutputFlags& output);

}  // namespace penstock
