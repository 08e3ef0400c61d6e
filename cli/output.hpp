#pragma once
// Writes a command's answers to standard output and to the files of -o. No file is left half written.

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

/// A function that makes a text. Error: why it cannot.
using WholeText = std::function<tl::expected<std::string, std::string>()>;

/// A form in which a command can write its answer, chosen by the file's suffix.
struct OutputForm {
  std::string_view suffix;  ///< ".json" or ".trace.json"; the longest match counts
  std::variant<WholeText, TextInPieces> content;
};

/// Returns whether the file ends in `suffix`, ignoring case, and has a name before it.
bool has_suffix(std::string_view file, std::string_view suffix);

/// Checks the files of -o before the work. Fails if a file has none of the suffixes (they are listed), is in
/// a folder that does not exist, or cannot be written. It also fails if a file is standard output, another
/// file of -o, or one of `others`, which are all other files that the command reads or writes.
tl::expected<void, UserError> check_output_files(const std::vector<std::string>& files,
                                                 const std::vector<std::string_view>& suffixes,
                                                 std::vector<FileArgument> others);

/// Checks one file in the same way, whatever its suffix.
tl::expected<void, UserError> check_output_place(const FileArgument& output,
                                                 const std::vector<FileArgument>& others);

/// Writes `content` under a temporary name beside `file` and renames it. The mode and links to the file stay.
/// A signal that ends the program in between leaves no temporary file. Error: "FILE: cannot be written: ...".
tl::expected<void, UserError> write_file(const std::filesystem::path& file, std::string_view content);
tl::expected<void, UserError> write_file(const std::filesystem::path& file, const TextInPieces& content);

/// Writes an answer: first the files of -o, with a note on stderr for each unless --quiet is given, then the
/// text on standard output. The text is also written if a file cannot be. Requires check_output_files().
/// Error: everything that failed.
tl::expected<void, UserError> write_answer(const OutputFlags& flags, const std::vector<OutputForm>& forms,
                                           const TextInPieces& text);
tl::expected<void, UserError> write_answer(const OutputFlags& flags, const std::vector<OutputForm>& forms,
                                           std::string_view text);

/// Writes to standard output. Error: it is closed or full. A reader that stops early is no error.
tl::expected<void, UserError> write_stdout(std::string_view text);

/// Writes a line to stderr. Errors are ignored.
void write_stderr(std::string_view line);

/// Writes a line to stderr that GitHub's runner obeys ("::error ..."). Other texts are escaped so that they
/// do not look like such a line, because they may contain foreign names.
void write_command(std::string_view line);

/// Return whether stderr or standard output is a terminal.
bool stderr_is_terminal();
bool stdout_is_terminal();

// Writes notes about an answer to stderr.

/// Writes a line "note: NOTE" to stderr for each note, unless --quiet is given.
void write_notes(const std::vector<std::string>& notes, const OutputFlags& flags);
/// Writes the notes about the input of a command that prints no result. They report repairs of a program
/// file, and the default number of chunks per rank.
void write_reading_notes(const Scenario& scenario, const OutputFlags& flags);

}  // namespace penstock
