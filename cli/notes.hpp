#pragma once
// Writes notes about an answer to stderr.

#include <string>
#include <vector>

#include "cli/flags.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// Writes a line "note: NOTE" to stderr for each note, unless --quiet is given.
void write_notes(const std::vector<std::string>& notes, const OutputFlags& flags);
/// Writes the notes about the input of a command that prints no result. They report repairs of a program
/// file, and the default number of chunks per rank.
void write_reading_notes(const Scenario& scenario, const OutputFlags& flags);

}  // namespace penstock
