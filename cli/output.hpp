#pragma once
// Where a command's answers go: standard output and the files of -o. Nothing is left half written.

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "report/print/text_sink.hpp"

namespace penstock {

/// Makes a text. Error: why there is none.
using WholeText = std::function<tl::expected<std::string, std::string>()>;

/// A form in which a command can write its answer, chosen by the file's suffix.
struct OutputForm {
  std::string_view suffix;  ///< ".json", ".trace.json"; the longest that fits is taken
  std::variant<WholeText, TextInPieces> content;
};

/// True when the file ends in `suffix`, in capital or small letters, and has a name before it.
bool has_suffix(std::string_view file, std::string_view suffix);

/// Of the files of -o. Fails when one has none of the suffixes (they are listed), stands in a directory that
/// does not exist, cannot be written, or is the same file as standard output, as another one of -o or as one
/// of `others`: all else that the command reads or writes by name. To be called before the work.
tl::expected<void, Failure> check_output_files(const std::vector<std::string>& files,
                                               const std::vector<std::string_view>& suffixes,
                                               std::vector<FileArgument> others);

/// The same of one file, whatever its suffix.
tl::expected<void, Failure> check_output_place(const FileArgument& output,
                                               const std::vector<FileArgument>& others);

/// Writes `content` to a temporary name beside `file` and renames it; mode, owner and links stay. A signal
/// that ends the run meanwhile leaves no temporary name. Error: "FILE: cannot be written: ...".
tl::expected<void, Failure> write_file(const std::filesystem::path& file, std::string_view content);
tl::expected<void, Failure> write_file(const std::filesystem::path& file, const TextInPieces& content);

/// An answer: first the files of -o, with a note on stderr for each unless --quiet, then the text on standard
/// output, also where a file cannot be written or its form takes more memory than there is. Requires
/// check_output_files(). Error: all that went wrong.
tl::expected<void, Failure> write_answer(const OutputFlags& flags, const std::vector<OutputForm>& forms,
                                         const TextInPieces& text);
tl::expected<void, Failure> write_answer(const OutputFlags& flags, const std::vector<OutputForm>& forms,
                                         std::string_view text);

/// Error: standard output is closed or full. That nobody reads on is none.
tl::expected<void, Failure> write_stdout(std::string_view text);

/// A line on stderr. Nobody is told when that fails.
void write_stderr(std::string_view line);

/// A line on stderr that GitHub's runner obeys ("::error ..."). Lines of any other text do not look like one
/// there: names that they show are somebody else's.
void write_command(std::string_view line);

/// True when stderr is a terminal; the same for standard output.
bool stderr_is_terminal();
bool stdout_is_terminal();

}  // namespace penstock
