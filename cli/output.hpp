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

/// A function that makes a text, or returns an error if it cannot.
using WholeText = std::function<tl::expected<std::string, std::string>()>;

/// A format in which a command can write its answer. The suffix of the output file selects the format.
struct OutputForm {
  /// The suffix that selects the format, such as ".json" or ".trace.json". If several suffixes match a
  /// file, the longest one counts.
  std::string_view suffix;
  std::variant<WholeText, TextInPieces> content;
};

/// Returns true if the file name ends in `suffix` and has at least one character before it. Ignores case,
/// and ignores a `.gz` at the end of the name: "x.csv.gz" has the suffix ".csv".
bool has_suffix(std::string_view file, std::string_view suffix);

/// Returns true if a name given to -o means standard output. Such a name begins with "-.", and the part
/// after "-" is the suffix.
bool names_standard_output(std::string_view file);

/// Checks the files of -o before the command does its work. Fails if a file has none of the suffixes,
/// cannot be written, or is in a folder that does not exist. Also fails if two outputs are the same file,
/// or if an output is standard output or one of `others`. `others` are all other files that the command
/// reads or writes.
tl::expected<void, UserError> check_output_files(const std::vector<std::string>& files,
                                                 const std::vector<std::string_view>& suffixes,
                                                 std::vector<FileArgument> others);

/// Checks one file like check_output_files(), but accepts any suffix.
tl::expected<void, UserError> check_output_place(const FileArgument& output,
                                                 const std::vector<FileArgument>& others);

/// Writes `content` to a temporary file beside `file`, and then renames the temporary file to `file`. The
/// mode and the symbolic links of `file` are preserved. If a signal ends the program, the temporary file is
/// removed. The error is "FILE: cannot be written: ...".
tl::expected<void, UserError> write_file(const std::filesystem::path& file, std::string_view content);
tl::expected<void, UserError> write_file(const std::filesystem::path& file, const TextInPieces& content);

/// Writes the files of -o first, with a note on stderr for each file unless --quiet is given. Then prints
/// the text on standard output, even if a file fails. If a name of -o means standard output, prints that
/// format instead of the text. Requires that the caller has called check_output_files(). The error lists
/// all failures.
tl::expected<void, UserError> write_answer(const OutputFlags& flags, const std::vector<OutputForm>& forms,
                                           const TextInPieces& text);
tl::expected<void, UserError> write_answer(const OutputFlags& flags, const std::vector<OutputForm>& forms,
                                           std::string_view text);

/// Writes the text to standard output. Fails if standard output is closed or full. It does not fail if the
/// program that reads the output stops early.
tl::expected<void, UserError> write_stdout(std::string_view text);

/// Writes a line to stderr, and ignores errors.
void write_stderr(std::string_view line);

/// Writes a line to stderr that GitHub's runner executes, such as "::error ...". Only this function can write
/// such a line. All other output is escaped, because it may contain names that other people chose.
void write_command(std::string_view line);

/// stderr_is_terminal() returns true if stderr is a terminal. stdout_is_terminal() returns true if standard
/// output is a terminal.
bool stderr_is_terminal();
bool stdout_is_terminal();

/// Writes "note: NOTE" to stderr for each note, unless --quiet is given.
void write_notes(const std::vector<std::string>& notes, const OutputFlags& flags);
/// Writes notes about the input to stderr, for commands that print no result. The notes report repairs of a
/// program file and the default number of chunks on a rank.
void write_reading_notes(const Scenario& scenario, const OutputFlags& flags);

}  // namespace penstock
