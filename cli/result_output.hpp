#pragma once
// Writes a Result in all the formats of `simulate`, `show` and `run`.

#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/subcommand.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline_window.hpp"

namespace penstock {

/// The flags that say where a Result is written, and whether its JSON contains every action.
struct ResultFlags {
  OutputFlags output;
  bool timeline = false;    ///< True if the JSON contains every action.
  TimelineWindow window{};  ///< The part of the run that an .svg file shows.
};

/// Declares the output flags and --timeline.
void add_result_flags(Subcommand app, ResultFlags& flags);
/// Declares the output flags without --timeline, for a command whose JSON always contains every action.
void add_drawing_flags(Subcommand app, ResultFlags& flags);

/// Calls check_output_files() with the suffixes of a Result's formats. `inputs` are the files that the
/// command reads.
tl::expected<void, UserError> check_result_files(const ResultFlags& flags,
                                                 const std::vector<FileArgument>& inputs);

/// Returns true if one of the output files shows memory over time (.html, .trace.json).
bool wants_memory_samples(const std::vector<std::string>& files);

/// Returns true if the JSON output or an output file shows single actions.
bool wants_timeline(const ResultFlags& flags);

/// The text forms of a Result. `printed` is for standard output, unless the user asks for JSON. `file` is
/// for a .txt file.
struct ResultTexts {
  std::string printed;
  std::string file;
};
tl::expected<void, UserError> write_result(const Result& result, const ResultFlags& flags,
                                           const ResultTexts& texts);

}  // namespace penstock
