#pragma once
// Writes the answers of a command to standard output and to the files of -o. A file is written completely or
// not at all.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/subcommand.hpp"
#include "report/print/table.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline_boxes.hpp"
#include "report/why/explanation.hpp"
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

// Writes files completely or not at all, and compresses texts (.gz).

/// Writes the whole text to an open file. Returns 0, or the error (errno).
int error_of_writing(int descriptor, std::string_view content);
/// Writes a text that is generated in pieces to an open file, and stops at the first error. Returns 0, or the
/// error (errno).
int error_of_writing(int descriptor, const TextInPieces& content);

/// Returns true if both names refer to the same regular file, also through links. If neither file exists,
/// returns true if both names would create the same file. Returns false for devices and pipes, because
/// several writers may share them.
bool is_same_file(const std::filesystem::path& one, const std::filesystem::path& other);

/// Returns true if standard output is redirected into this regular file.
bool is_standard_output(const std::filesystem::path& file);

/// Returns the reason why the file cannot be created or replaced, or an empty text if it can.
std::string unwritable(const std::filesystem::path& file);

/// Writes a text to a temporary file beside `file`, flushes it, and renames it to `file`. Links and the
/// mode of the file are preserved. Devices and pipes are written directly. If `content` throws or a signal
/// ends the run, the temporary file is removed. Returns the reason of a failure, or an empty text if there
/// is none.
std::string problem_of_writing(const std::filesystem::path& file, const TextInPieces& content);

/// Returns the text compressed as a gzip file, in pieces that are not whole lines. The file contains no
/// name and no time. Equal texts therefore give equal bytes with the same version of zlib.
TextInPieces compressed(TextInPieces text);

// Writes a Result in all the formats of `simulate`, `show` and `run`.

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
  /// Returns the explanation that an .html file shows. It may be empty. Then the explanation follows from the
  /// spans of the result.
  std::function<std::optional<Explanation>()> explanation{};
};
tl::expected<void, UserError> write_result(const Result& result, const ResultFlags& flags,
                                           const ResultTexts& texts);

}  // namespace penstock
