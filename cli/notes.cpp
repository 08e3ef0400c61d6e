// A line a note; they never mix with the answer, which another program may read from standard output.

#include "cli/notes.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/flags.hpp"
#include "cli/output.hpp"
#include "report/print/escaping.hpp"

namespace penstock {

void write_notes(const std::vector<std::string>& notes, const OutputFlags& flags) {
  for (const std::string& note : notes) {
    if (!flags.quiet) write_stderr(fmt::format("note: {}", shown_name(note)));
  }
}

}  // namespace penstock
