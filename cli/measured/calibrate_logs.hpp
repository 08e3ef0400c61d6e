#pragma once
// Implements `penstock calibrate --from-log`. It turns logs of training runs into rows of measured runs,
// and fits the constants of the device to them. calibrate_command.cpp measures on this machine instead.

#include <string>
#include <string_view>
#include <vector>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/subcommand.hpp"

namespace penstock {

/// The flags that name logs and their configurations.
struct LogFlags {
  std::vector<std::string> logs;
  std::vector<std::string> configs;
};

/// Returns the files that the flags name.
std::vector<FileArgument> inputs_of(const LogFlags& logs, const InputFlags& input);

/// Declares --from-log and --config.
void add_log_flags(Subcommand app, LogFlags& flags);

/// Reads the logs, fits constants to them and writes the answer. `input` states what the logs do not say;
/// it names no file.
Outcome calibrate_from_logs(const LogFlags& logs, const InputFlags& input, const OutputFlags& output);

}  // namespace penstock
