#pragma once
// Writes a Result in all the forms of `simulate`, `show` and `run`.

#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/subcommand.hpp"
#include "report/result/result.hpp"

namespace penstock {

/// The flags that say where a Result is written, and whether its JSON has every action.
struct ResultFlags {
  OutputFlags output;
  bool timeline = false;  ///< JSON has every action
};

/// Adds the output flags with --timeline.
void add_result_flags(Subcommand app, ResultFlags& flags);
/// Adds the output flags without --timeline, because JSON always has every action.
void add_drawing_flags(Subcommand app, ResultFlags& flags);

/// Calls check_output_files() with the suffixes of a Result's forms and the files that the command reads.
tl::expected<void, UserError> check_result_files(const ResultFlags& flags,
                                                 const std::vector<FileArgument>& inputs);

/// Returns whether the form of a file draws memory over time (.html, .trace.json).
bool wants_memory_samples(const std::vector<std::string>& files);

/// Returns whether JSON or a file shows single actions.
bool wants_timeline(const ResultFlags& flags);

/// A Result as text: for standard output unless JSON is requested, and for a .txt file.
struct ResultTexts {
  std::string printed;
  std::string file;
};
tl::expected<void, UserError> write_result(const Result& result, const ResultFlags& flags,
                                           const ResultTexts& texts);

}  // namespace penstock
