// A file appears whole or not at all: its content goes to a name of its own beside it and is renamed over it,
// so that a reader or a run that is ended in between never sees half of it; a signal that ends the run
// removes that name. Links stay links and modes stay as they are, and devices and pipes are written in place,
// as are files with a second name, which renaming would part. Suffixes choose forms, and are checked before
// the work, which may take minutes; whether the files can be written is tried then, too.

#include "cli/output.hpp"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction() is POSIX's

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "report/print/escaping.hpp"

namespace penstock {
namespace {

/// 0 when all is written, otherwise the error.
int error_of_writing(int descriptor, std::string_view content) {
  // Linux ends a write to a file before it looks at a signal that somebody handles.
  constexpr std::size_t kMostAtOnce = 4U << 20U;
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor, content.data(), std::min(content.size(), kMostAtOnce));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

/// Empty when all is written, otherwise why not.
std::string write_all(int descriptor, std::string_view content) {
  const int error = error_of_writing(descriptor, content);
  return error == 0 ? std::string() : std::strerror(error);
}

tl::unexpected<Failure> cannot_write(std::string_view name, std::string_view why) {
  return bad_input(fmt::format("{}: cannot be written: {}", name, why));
}

/// The file that a link names, so that the link stays.
std::filesystem::path target_of(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_symlink(file, error)) return file;
  const std::filesystem::path target = std::filesystem::weakly_canonical(file, error);
  return error ? file : target;
}

bool is_special(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

/// Why the file could not be replaced or made; empty where it can.
std::string unwritable(const std::filesystem::path& file) {
  const std::filesystem::path target = target_of(file);
  struct stat status{};
  if (::stat(target.c_str(), &status) == 0) {
    // A mode without any right to write is a wish that holds for root, too.
    const bool is_read_only = (status.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) == 0;
    if (is_read_only) return "it is read-only; make it writable or name another";
    if (::access(target.c_str(), W_OK) != 0) return std::strerror(errno);
    if (!S_ISREG(status.st_mode)) return {};
  }
  const std::filesystem::path directory = target.parent_path();
  if (::access(directory.empty() ? "." : directory.c_str(), W_OK | X_OK) != 0)
    return fmt::format("{} in {}", std::strerror(errno), directory.empty() ? "." : directory.string());
  return {};
}

// --- a name beside the file -------------------------------------------------------------------------------

// What a signal that ends the run removes; empty: nothing. Handlers may touch nothing but such globals.
std::array<char, PATH_MAX> temporary_name{};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
volatile std::sig_atomic_t temporary_exists =
    0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void remove_and_end(int signal) {
  if (temporary_exists != 0) ::unlink(temporary_name.data());
  // The handler was taken off when it was called: the signal now ends the run as it would have.
  static_cast<void>(::raise(signal));
}

/// A file of its own name beside `target`, removed unless it took its place. One at a time.
class Temporary {
 public:
  explicit Temporary(const std::filesystem::path& target)
      : name_(fmt::format("{}.{}.tmp", target.string(), ::getpid())) {
    if (name_.size() >= temporary_name.size()) return;  // too long for open() as well
    std::ranges::copy(name_, temporary_name.begin());
    temporary_name[name_.size()] = '\0';
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction now{};
      ::sigaction(kSignals[i], nullptr, &now);
      handled_[i] = now.sa_handler == SIG_DFL;
      if (!handled_[i]) continue;  // somebody notes it, and the run goes on
      struct sigaction removing{};
      removing.sa_handler = remove_and_end;
      removing.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
      ::sigaction(kSignals[i], &removing, nullptr);
    }
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  Temporary(Temporary&&) = delete;
  Temporary& operator=(Temporary&&) = delete;
  ~Temporary() {
    if (temporary_exists != 0) ::unlink(name_.c_str());
    temporary_exists = 0;
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      if (handled_[i]) ::signal(kSignals[i], SIG_DFL);
    }
  }

  const std::string& name() const { return name_; }
  int open() const {
    const int descriptor = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) temporary_exists = 1;
    return descriptor;
  }
  /// Error: empty, or why it could not take the target's place.
  std::string replace(const std::filesystem::path& target) const {
    if (std::rename(name_.c_str(), target.c_str()) != 0) return std::strerror(errno);
    temporary_exists = 0;
    return {};
  }

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::string name_;
  std::array<bool, kSignals.size()> handled_{};
};

/// Opens the file as it is, writes and closes it. Empty, or why not.
std::string write_in_place(const std::filesystem::path& file, std::string_view content, int flags) {
  const int descriptor = ::open(file.c_str(), flags | O_CLOEXEC);
  if (descriptor < 0) return std::strerror(errno);
  std::string problem = write_all(descriptor, content);
  if (::close(descriptor) != 0 && problem.empty()) problem = std::strerror(errno);
  return problem;
}

/// Writes it beside the target, which it then replaces. Empty, or why not.
std::string write_whole(const std::filesystem::path& target, std::string_view content) {
  const Temporary temporary(target);
  const int descriptor = temporary.open();
  if (descriptor < 0) return std::strerror(errno);
  std::string problem = write_all(descriptor, content);
  struct stat before{};
  const bool replaces = ::stat(target.c_str(), &before) == 0;
  if (replaces) {
    ::fchmod(descriptor, before.st_mode & 07777U);
    static_cast<void>(::fchown(descriptor, before.st_uid, before.st_gid));  // as far as that is ours to do
  }
  if (::close(descriptor) != 0 && problem.empty()) problem = std::strerror(errno);
  if (!problem.empty()) return problem;
  // That there was room for it beside the file is all that can be known of one with several names.
  if (replaces && before.st_nlink > 1) return write_in_place(target, content, O_WRONLY | O_TRUNC);
  return temporary.replace(target);
}

const OutputForm* form_of(std::string_view file, const std::vector<OutputForm>& forms) {
  const OutputForm* best = nullptr;
  for (const OutputForm& form : forms) {
    if (has_suffix(file, form.suffix) && (best == nullptr || form.suffix.size() > best->suffix.size()))
      best = &form;
  }
  return best;
}

}  // namespace

bool has_suffix(std::string_view file, std::string_view suffix) {
  const std::string_view name = file.substr(file.rfind('/') + 1);
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return name.size() > suffix.size() &&
         std::ranges::equal(name.substr(name.size() - suffix.size()), suffix, same);
}

tl::expected<void, Failure> check_output_files(const std::vector<std::string>& files,
                                               const std::vector<std::string_view>& suffixes) {
  for (const std::string& file : files) {
    bool known = false;
    for (const std::string_view suffix : suffixes) known |= has_suffix(file, suffix);
    if (!known) {
      return bad_input(fmt::format("-o {}: the suffix says the form: expected a name that ends in {}", file,
                                   fmt::join(suffixes, ", ")));
    }
    const std::filesystem::path directory = std::filesystem::path(file).parent_path();
    std::error_code error;
    if (!directory.empty() && !std::filesystem::is_directory(directory, error)) {
      return bad_input(fmt::format("-o {}: the directory {} does not exist", file, directory.string()));
    }
    if (std::filesystem::is_directory(file, error))
      return bad_input(fmt::format("-o {}: is a directory", file));
    if (const std::string why = unwritable(file); !why.empty()) return cannot_write("-o " + file, why);
  }
  return {};
}

tl::expected<void, Failure> write_file(const std::filesystem::path& file, std::string_view content) {
  const std::filesystem::path target = target_of(file);
  if (const std::string why = unwritable(file); !why.empty()) return cannot_write(file.string(), why);
  const std::string problem =
      is_special(target) ? write_in_place(target, content, O_WRONLY) : write_whole(target, content);
  if (problem.empty()) return {};
  return cannot_write(file.string(), problem);
}

namespace {

constexpr std::string_view kTooLittleMemory = "this machine has too little memory for a text of this size";

/// GitHub's runner obeys lines of a job's log that begin with two colons, wherever they come from.
std::string without_commands(std::string text) {
  for (std::size_t at = text.find("::"); at != std::string::npos; at = text.find("::", at + 2)) {
    const std::size_t before = at == 0 ? std::string::npos : text.find_last_not_of(" \t\r", at - 1);
    if (before == std::string::npos || text[before] == '\n') text.replace(at, 1, "\\x3a");
  }
  return text;
}

tl::expected<void, Failure> write_form(const std::string& file, const std::vector<OutputForm>& forms) {
  try {
    const auto content = form_of(file, forms)->write();
    if (!content) return bad_input(fmt::format("-o {}: {}", file, content.error()));
    return write_file(file, *content);
  } catch (const std::bad_alloc&) {
    return bad_input(fmt::format("-o {}: {}", file, kTooLittleMemory));
  }
}

/// Each file in the form that its suffix asks for, whatever becomes of the others.
tl::expected<void, Failure> write_files(const OutputFlags& flags, const std::vector<OutputForm>& forms) {
  std::vector<std::string> problems;
  ExitCode code = ExitCode::bad_input;
  for (const std::string& file : flags.files) {
    const auto written = write_form(file, forms);
    if (written) {
      if (!flags.quiet) write_stderr(fmt::format("wrote {}", file));
      continue;
    }
    problems.push_back(written.error().message);
    code = written.error().code;
  }
  if (problems.empty()) return {};
  return tl::unexpected(Failure{code, fmt::format("{}", fmt::join(problems, "\npenstock: "))});
}

tl::expected<void, Failure> print_made(const std::function<std::string()>& text) {
  try {
    return write_stdout(text());
  } catch (const std::bad_alloc&) {
    return cannot_write("standard output", kTooLittleMemory);
  }
}

}  // namespace

tl::expected<void, Failure> write_answer(const OutputFlags& flags, const std::vector<OutputForm>& forms,
                                         const std::function<std::string()>& text) {
  // A result that took minutes is not lost because one of its places is.
  const auto files = write_files(flags, forms);
  const auto printed = print_made(text);
  return files ? printed : files;
}

tl::expected<void, Failure> write_answer(const OutputFlags& flags, const std::vector<OutputForm>& forms,
                                         std::string_view text) {
  return write_answer(flags, forms, [text] { return std::string(text); });
}

tl::expected<void, Failure> write_stdout(std::string_view text) {
  const bool is_plain =
      std::ranges::all_of(text, [](char c) { return (c >= ' ' && c <= '~') || c == '\n'; }) &&
      text.find("::") == std::string_view::npos;
  const std::string shown = is_plain ? std::string() : without_commands(shown_text(text));
  const int error = error_of_writing(STDOUT_FILENO, is_plain ? text : shown);
  if (error == 0 || error == EPIPE) return {};  // who reads no further, as `head`, has what it wants
  return cannot_write("standard output", std::strerror(error));
}

void write_stderr(std::string_view line) {
  constexpr std::size_t kMost = 64U << 10U;
  const std::string more =
      line.size() > kMost ? fmt::format("... ({} more bytes)", line.size() - kMost) : std::string();
  const std::string shown = without_commands(shown_text(line.substr(0, kMost)));
  static_cast<void>(write_all(STDERR_FILENO, fmt::format("{}{}\n", shown, more)));
}

void write_command(std::string_view line) {
  static_cast<void>(write_all(STDERR_FILENO, shown_text(line) + "\n"));
}

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }
bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }

}  // namespace penstock
