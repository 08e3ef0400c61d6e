// Writes the answers of commands to standard output and to files. The suffix of a file determines its
// format. Suffixes and write permissions are checked before the work, which may take minutes. If one file
// cannot be written, the other files are still written. Long texts are written in blocks of whole lines.
// Each block is checked for text that a terminal or a CI runner would execute. output_file.cpp writes the
// bytes of one file.

#include "cli/output.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "report/print/table.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "text/escaping.hpp"

namespace penstock {

namespace {

tl::unexpected<UserError> cannot_write(std::string_view name, std::string_view why) {
  return bad_input(fmt::format("{}: cannot be written: {}", shown_name(name), why));
}

/// Returns an output argument as the user typed it, such as "-o plan.yaml".
std::string output_words(const FileArgument& argument) {
  return fmt::format("{} {}", argument.name, argument.file);
}

/// Returns an error if `output` would overwrite one of `others`, the files that the command also reads or
/// writes.
tl::expected<void, UserError> check_not_in_use(const FileArgument& output,
                                               const std::vector<FileArgument>& others) {
  const std::string name = shown_name(output_words(output));
  for (const FileArgument& other : others) {
    if (other.file.empty() || !is_same_file(output.file, other.file)) continue;
    return bad_input(fmt::format("{}: is the same file as {}, which it would replace: name another file",
                                 name, shown_name(output_words(other))));
  }
  if (!is_standard_output(output.file)) return {};
  return bad_input(
      fmt::format("{}: is the same file as standard output, and one would replace the other: name another "
                  "file, or leave {} out",
                  name, output.name));
}

/// Returns the output format with the longest suffix that the file name has: "x.trace.json" is a trace.
/// Returns null if no suffix matches; an earlier check excludes this.
const OutputForm* form_of(std::string_view file, const std::vector<OutputForm>& forms) {
  const OutputForm* best = nullptr;
  for (const OutputForm& form : forms) {
    if (has_suffix(file, form.suffix) && (best == nullptr || form.suffix.size() > best->suffix.size()))
      best = &form;
  }
  return best;
}

constexpr std::string_view kCompressed = ".gz";

bool is_compressed(std::string_view file) { return file.ends_with(kCompressed); }

}  // namespace

bool names_standard_output(std::string_view file) { return file.starts_with("-."); }

bool has_suffix(std::string_view file, std::string_view suffix) {
  if (is_compressed(file)) file.remove_suffix(kCompressed.size());
  const std::string_view name = file.substr(file.rfind('/') + 1);
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return name.size() > suffix.size() &&
         std::ranges::equal(name.substr(name.size() - suffix.size()), suffix, same);
}

tl::expected<void, UserError> check_output_place(const FileArgument& output,
                                                 const std::vector<FileArgument>& others) {
  const std::string& file = output.file;
  const std::string name = output_words(output);
  const std::filesystem::path directory = std::filesystem::path(file).parent_path();
  std::error_code error;
  if (!directory.empty() && !std::filesystem::is_directory(directory, error)) {
    return bad_input(
        fmt::format("{}: the directory {} does not exist", shown_name(name), shown_name(directory.string())));
  }
  if (std::filesystem::is_directory(file, error))
    return bad_input(fmt::format("{}: is a directory", shown_name(name)));
  if (auto free = check_not_in_use(output, others); !free) return free;
  if (const std::string why = unwritable(file); !why.empty()) return cannot_write(name, why);
  return {};
}

tl::expected<void, UserError> check_output_files(const std::vector<std::string>& files,
                                                 const std::vector<std::string_view>& suffixes,
                                                 std::vector<FileArgument> others) {
  for (const std::string& file : files) {
    bool known = false;
    for (const std::string_view suffix : suffixes) known |= has_suffix(file, suffix);
    if (!known) {
      return bad_input(fmt::format("-o {}: the suffix chooses the format: expected a name that ends in {}",
                                   shown_name(file), fmt::join(suffixes, ", ")));
    }
    const FileArgument output = {"-o", file};
    if (names_standard_output(file)) {
      const auto same = std::ranges::find_if(others, [](const FileArgument& other) {
        return other.name == "-o" && names_standard_output(other.file);
      });
      if (same != others.end()) {
        return bad_input(fmt::format("-o {}: {} goes to standard output, too: leave one out",
                                     shown_name(file), shown_name(output_words(*same))));
      }
      others.push_back(output);
      continue;
    }
    if (auto place = check_output_place(output, others); !place) return place;
    others.push_back(output);
  }
  return {};
}

tl::expected<void, UserError> write_file(const std::filesystem::path& file, std::string_view content) {
  return write_file(file, [content](const TextSink& sink) { sink(content); });
}

tl::expected<void, UserError> write_file(const std::filesystem::path& file, const TextInPieces& content) {
  const std::string problem = problem_of_writing(file, content);
  if (problem.empty()) return {};
  return cannot_write(file.string(), problem);
}

namespace {

// A text with every action may need more memory than the result itself, so the memory may be too small for
// it.
constexpr std::string_view kTooLittleMemory = "this machine has too little memory for a text of this size";

/// Returns true if a CI runner treats the text between the start of the line and `at` as blank. Every byte
/// that is not ASCII counts as blank, because many alphabets have blank characters.
bool begins_a_line(std::string_view text, std::size_t at) {
  const auto is_blank = [](char c) {
    return c == ' ' || c == '\t' || c == '\r' || static_cast<unsigned char>(c) >= 0x80;
  };
  while (at > 0 && is_blank(text[at - 1])) --at;
  return at == 0 || text[at - 1] == '\n';
}

/// Returns the text with all commands to CI runners escaped. GitHub's runner executes log lines that begin
/// with "::", so "::error" becomes "\x3a:error". GitHub's runner also executes "##[error]" anywhere in a
/// line, and Azure's runner executes "##vso[...]". Inside a JSON string, the escape means the same text.
std::string without_commands(std::string text) {
  for (std::size_t at = text.find("::"); at != std::string::npos; at = text.find("::", at + 2)) {
    if (begins_a_line(text, at)) text.replace(at, 1, "\\x3a");
  }
  for (const std::string_view command : {"##[", "##vso["}) {
    for (std::size_t at = text.find(command); at != std::string::npos; at = text.find(command, at))
      text.replace(at, 1, "\\u0023");
  }
  return text;
}

/// Returns true if the file is JSON or a text for people. Control characters in such files are escaped,
/// because a terminal or an editor would execute them. Programs and YAML have quoting rules of their own.
bool is_for_readers(const std::string& file) {
  constexpr std::array<std::string_view, 3> kSuffixes = {".json", ".md", ".txt"};
  return std::ranges::any_of(kSuffixes, [&](std::string_view suffix) { return has_suffix(file, suffix); });
}

/// Returns the same text in pieces, with control characters escaped.
TextInPieces shown_pieces(TextInPieces content) {
  return [content = std::move(content)](const TextSink& sink) {
    content([&sink](std::string_view lines) { return sink(is_plain(lines) ? lines : shown_message(lines)); });
  };
}

/// Returns the content of a file in the format that its suffix determines. Returns an error if this format
/// cannot be made.
tl::expected<TextInPieces, std::string> content_of(const std::string& file,
                                                   const std::vector<OutputForm>& forms) {
  const auto& content = form_of(file, forms)->content;
  TextInPieces pieces;
  if (const auto* known = std::get_if<TextInPieces>(&content)) {
    pieces = *known;
  } else {
    auto whole = std::get<WholeText>(content)();
    if (!whole) return tl::unexpected(std::move(whole.error()));
    pieces = [text = *std::move(whole)](const TextSink& sink) { sink(text); };
  }
  if (is_for_readers(file)) pieces = shown_pieces(std::move(pieces));
  return is_compressed(file) ? compressed(std::move(pieces)) : pieces;
}

/// Writes one file in the format that its suffix determines.
tl::expected<void, UserError> write_form(const std::string& file, const std::vector<OutputForm>& forms) {
  try {
    const auto content = content_of(file, forms);
    if (!content) return bad_input(fmt::format("-o {}: {}", shown_name(file), content.error()));
    return write_file(file, *content);
  } catch (const std::bad_alloc&) {
    return bad_input(fmt::format("-o {}: {}", shown_name(file), kTooLittleMemory));
  }
}

/// Writes each file in the format of its suffix. If one file fails, the others are still written.
tl::expected<void, UserError> write_files(const OutputFlags& flags, const std::vector<OutputForm>& forms) {
  std::vector<std::string> problems;
  ErrorKind kind = ErrorKind::bad_input;
  for (const std::string& file : flags.files) {
    if (names_standard_output(file)) continue;
    const auto written = write_form(file, forms);
    if (written) {
      if (!flags.quiet) write_stderr(fmt::format("wrote {}", shown_name(file)));
      continue;
    }
    problems.push_back(written.error().message);
    kind = written.error().kind;
  }
  if (problems.empty()) return {};
  return user_error(kind, fmt::format("{}", fmt::join(problems, "\npenstock: ")));
}

/// Writes lines to standard output, and escapes lines that a CI runner would execute as commands. Returns
/// 0, or the error number (errno).
int error_of_printing(std::string_view lines) {
  return error_of_writing(STDOUT_FILENO, is_plain(lines) ? lines : without_commands(shown_text(lines)));
}

tl::expected<void, UserError> outcome_of_printing(int error) {
  // A reader such as `head` may close the pipe early. This is not an error.
  if (error == 0 || error == EPIPE) return {};
  return cannot_write("standard output", std::strerror(error));
}

/// Writes a text to standard output block by block.
tl::expected<void, UserError> print(const TextInPieces& text) {
  try {
    int error = 0;
    text([&error](std::string_view lines) {
      error = error_of_printing(lines);
      return error == 0;  // If the result is false, no further blocks are made.
    });
    return outcome_of_printing(error);
  } catch (const std::bad_alloc&) {
    return cannot_write("standard output", kTooLittleMemory);
  }
}

/// Prints the output of -o to standard output, if the user names standard output as its file. The lines are
/// the same as in a file, but text that a CI runner would execute is escaped.
tl::expected<void, UserError> print_form(const std::string& file, const std::vector<OutputForm>& forms) {
  try {
    const auto content = content_of(file, forms);
    if (!content) return bad_input(fmt::format("-o {}: {}", shown_name(file), content.error()));
    int error = 0;
    (*content)([&](std::string_view piece) {
      error = error_of_writing(
          STDOUT_FILENO, is_compressed(file) ? std::string(piece) : without_commands(std::string(piece)));
      return error == 0;
    });
    return outcome_of_printing(error);
  } catch (const std::bad_alloc&) {
    return cannot_write("standard output", kTooLittleMemory);
  }
}

/// Shortens long words in an error message. A long word may be the whole content of a file. Such content
/// must not appear in a public log.
std::string with_words_cut(std::string_view text) {
  constexpr std::size_t kLongest = 512;
  constexpr std::size_t kShown = 128;
  std::string shown;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find_first_of(" \n"));
    if (word.size() > kLongest) {
      shown += fmt::format("{}... ({} more bytes)", word.substr(0, kShown), word.size() - kShown);
    } else {
      shown += word;
    }
    text.remove_prefix(word.size());
    const std::string_view blanks = text.substr(0, text.find_first_not_of(" \n"));
    shown += blanks;
    text.remove_prefix(blanks.size());
  }
  return shown;
}

}  // namespace

tl::expected<void, UserError> write_answer(const OutputFlags& flags, const std::vector<OutputForm>& forms,
                                           const TextInPieces& text) {
  // If a file fails, the answer is still printed, because its computation may have taken minutes.
  const auto files = write_files(flags, forms);
  const auto to_print = std::ranges::find_if(flags.files, names_standard_output);
  const auto printed = to_print == flags.files.end() ? print(text) : print_form(*to_print, forms);
  return files ? printed : files;
}

tl::expected<void, UserError> write_answer(const OutputFlags& flags, const std::vector<OutputForm>& forms,
                                           std::string_view text) {
  return write_answer(flags, forms, [text](const TextSink& sink) { sink(text); });
}

tl::expected<void, UserError> write_stdout(std::string_view text) {
  return outcome_of_printing(error_of_printing(text));
}

void write_stderr(std::string_view text) {
  constexpr std::size_t kMost = 64U << 10U;  // the limit for a whole message, after long words were shortened
  const std::string line = with_words_cut(text);
  const std::string more =
      line.size() > kMost ? fmt::format("... ({} more bytes)", line.size() - kMost) : std::string();
  const std::string shown = without_commands(shown_message(line.substr(0, kMost)));
  static_cast<void>(error_of_writing(STDERR_FILENO, fmt::format("{}{}\n", shown, more)));
}

void write_command(std::string_view line) {
  static_cast<void>(error_of_writing(STDERR_FILENO, shown_message(line) + "\n"));
}

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }
bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }

// Writes one line for each note. Notes go to stderr, because other programs may read the answer from standard
// output.

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
