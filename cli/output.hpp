#pragma once
// Writes the answers of a command to standard output and to the files of -o. A file is written completely or
// not at all.

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "report/print/text_sink.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// A function that makes a text. It returns an error if it cannot make the text.
using WholeText = std::function<tl::expected<std::string, std::string>()>;

/// A format in which a command can write its answer. The suffix of the file selects it.
struct OutputForm {
  /// A suffix such as ".json" or ".trace.json"; the longest suffix that matches counts
  std::string_view suffix;
  std::variant<WholeText, TextInPieces> content;
};

/// Returns true if the file name ends in `suffix`, ignoring case, and has at least one character before it. A
/// `.gz` at the end of the name is left out first: "x.csv.gz" has the suffix ".csv".
bool has_suffix(std::string_view file, std::string_view suffix);

/// Returns true if the name of -o means standard output: it begins with "-.". The rest is the suffix.
bool names_standard_output(std::string_view file);

/// Checks the files of -o before the work. Returns an error if a file has none of the suffixes, cannot be
/// written, or is in a folder that does not exist. Also returns an error if two outputs are the same file, or
/// if an output is standard output or one of `others`. `others` are all other files that the command reads or
/// writes.
tl::expected<void, UserError> check_output_files(const std::vector<std::string>& files,
                                                 const std::vector<std::string_view>& suffixes,
                                                 std::vector<FileArgument> others);

/// Checks one file like check_output_files(), but accepts any suffix.
tl::expected<void, UserError> check_output_place(const FileArgument& output,
                                                 const std::vector<FileArgument>& others);

/// Writes `content` to a temporary file beside `file` and renames it. The file's mode and its symbolic links
/// are preserved. If a signal ends the program, the temporary file is removed. The error is "FILE: cannot be
/// written: ...".
tl::expected<void, UserError> write_file(const std::filesystem::path& file, std::string_view content);
tl::expected<void, UserError> write_file(const std::filesystem::path& file, const TextInPieces& content);

/// Writes the files of -o first. For each file, writes a note to stderr, unless --quiet is given. Then prints
/// the text on standard output, even if a file fails. If a name of -o means standard output, prints that
/// format and not the text. Requires check_output_files(). The error lists all failures.
tl::expected<void, UserError> write_answer(const OutputFlags& flags, const std::vector<OutputForm>& forms,
                                           const TextInPieces& text);
tl::expected<void, UserError> write_answer(const OutputFlags& flags, const std::vector<OutputForm>& forms,
                                           std::string_view text);

/// Writes to standard output. Returns an error if standard output is closed or full. It is not an error if
/// the program that reads the output stops early.
tl::expected<void, UserError> write_stdout(std::string_view text);

/// Writes a line to stderr, and ignores errors.
void write_stderr(std::string_view line);

/// Writes a line that GitHub's runner executes ("::error ...") to stderr. All other output may contain names
/// from other people. It is therefore escaped, so that it cannot contain such a line.
void write_command(std::string_view line);

/// Return true if stderr or standard output is a terminal.
bool stderr_is_terminal();
bool stdout_is_terminal();

/// Writes "note: NOTE" to stderr for each note, unless --quiet is given.
void write_notes(const std::vector<std::string>& notes, const OutputFlags& flags);
/// Writes notes about the input, for commands that print no result. The notes report repairs of a program
/// file and the default number of chunks on a rank.
void write_reading_notes(const Scenario& scenario, const OutputFlags& flags);

}  // namespace penstock
