#pragma once
// Notes that a user needs beside an answer, on stderr.

#include <string>
#include <vector>

#include "cli/flags.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// Writes "note: NOTE" to stderr for each note, unless --quiet is given.
void write_notes(const std::vector<std::string>& notes, const OutputFlags& flags);
/// Writes the notes about the input of a command that prints no result: repairs of a program file, and the
/// default number of chunks of a rank.
void write_reading_notes(const Scenario& scenario, const OutputFlags& flags);

}  // namespace penstock
