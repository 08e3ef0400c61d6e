#pragma once
// What a user must know beside an answer, on standard error.

#include <string>
#include <vector>

#include "cli/flags.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// "note: NOTE" on stderr for each, unless --quiet.
void write_notes(const std::vector<std::string>& notes, const OutputFlags& flags);
/// Writes what a command must say of the scenario that it read where it prints no result: what was mended in
/// a program's file, and how many chunks a rank has by default.
void write_reading_notes(const Scenario& scenario, const OutputFlags& flags);

}  // namespace penstock
