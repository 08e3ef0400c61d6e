// A file appears whole or not at all: its content goes to a name of its own beside it and is renamed over it,
// so that a reader or a run that is ended in between never sees half of it. Links stay links, and devices and
// pipes are written in place. Suffixes choose forms, and are checked before the work, which may take minutes.

#include "cli/output.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"

namespace penstock {
namespace {

/// Empty when all is written, otherwise why not.
std::string write_all(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return std::strerror(errno);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
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
  }
  return {};
}

tl::expected<void, Failure> write_file(const std::filesystem::path& file, std::string_view content) {
  const std::filesystem::path target = target_of(file);
  const bool special = is_special(target);  // a device or pipe is written to, not replaced
  const std::string temporary =
      special ? target.string() : fmt::format("{}.{}.tmp", target.string(), ::getpid());
  const int flags = special ? O_WRONLY : O_WRONLY | O_CREAT | O_EXCL;
  const int descriptor = ::open(temporary.c_str(), flags | O_CLOEXEC, 0666);
  if (descriptor < 0) return cannot_write(file.string(), std::strerror(errno));
  std::string problem = write_all(descriptor, content);
  if (::close(descriptor) != 0 && problem.empty()) problem = std::strerror(errno);
  if (problem.empty() && !special && std::rename(temporary.c_str(), target.c_str()) != 0)
    problem = std::strerror(errno);
  if (problem.empty()) return {};
  if (!special) ::unlink(temporary.c_str());
  return cannot_write(file.string(), problem);
}

tl::expected<void, Failure> write_files(const std::vector<std::string>& files,
                                        const std::vector<OutputForm>& forms) {
  for (const std::string& file : files) {
    const auto content = form_of(file, forms)->write();
    if (!content) return bad_input(fmt::format("-o {}: {}", file, content.error()));
    if (auto written = write_file(file, *content); !written) return written;
  }
  return {};
}

tl::expected<void, Failure> write_answer(const OutputFlags& flags, const std::vector<OutputForm>& forms,
                                         std::string_view text) {
  if (auto written = write_files(flags.files, forms); !written) return written;
  for (const std::string& file : flags.files) {
    if (!flags.quiet) write_stderr(fmt::format("wrote {}", file));
  }
  return write_stdout(text);
}

tl::expected<void, Failure> write_stdout(std::string_view text) {
  const std::string problem = write_all(STDOUT_FILENO, text);
  if (problem.empty()) return {};
  return cannot_write("standard output", problem);
}

void write_stderr(std::string_view line) {
  static_cast<void>(write_all(STDERR_FILENO, fmt::format("{}\n", line)));
}

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }
bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }

}  // namespace penstock
