// Writes one line for each note. Notes go to stderr and never into the answer, which another program may read
// from standard output.

#include "cli/notes.hpp"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/flags.hpp"
#include "cli/output.hpp"
#include "scenarios/prepare/priced_experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "text/escaping.hpp"

namespace penstock {

void write_notes(const std::vector<std::string>& notes, const OutputFlags& flags) {
  for (const std::string& note : notes) {
    if (!flags.quiet) write_stderr(fmt::format("note: {}", shown_name(note)));
  }
}

void write_reading_notes(const Scenario& scenario, const OutputFlags& flags) {
  if (scenario.program) write_notes(scenario.notes, flags);
  if (auto note = chunks_note(scenario)) write_notes({*std::move(note)}, flags);
}

}  // namespace penstock
