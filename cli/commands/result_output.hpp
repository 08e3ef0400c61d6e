#pragma once
// A Result in all the forms that `simulate`, `show` and `run` write.

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/subcommand.hpp"
#include "report/result/result.hpp"

namespace penstock {

/// Where a Result goes, and how much of it JSON has.
struct ResultFlags {
  OutputFlags output;
  bool timeline = false;  ///< JSON holds every action
};

/// The flags of output, with --timeline.
void add_result_flags(Subcommand app, ResultFlags& flags);
/// Without it: JSON always holds every action.
void add_drawing_flags(Subcommand app, ResultFlags& flags);

/// check_output_files() with the suffixes of a Result's forms, beside what the command reads.
tl::expected<void, Failure> check_result_files(const ResultFlags& flags,
                                               const std::vector<FileArgument>& inputs);

/// True when some file's form draws memory over time (.html, .trace.json).
bool wants_memory_samples(const std::vector<std::string>& files);

/// True when JSON or some file shows single actions.
bool wants_timeline(const ResultFlags& flags);

/// A Result as text: on standard output, unless JSON is asked for, and in a .txt file.
struct ResultTexts {
  std::string printed;
  std::string file;
};
tl::expected<void, Failure> write_result(const Result& result, const ResultFlags& flags,
                                         const ResultTexts& texts);

}  // namespace penstock
