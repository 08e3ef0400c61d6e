// A file appears whole or not at all: its content goes to a name of its own beside it and is renamed over it,
// so that a reader or a run that is ended in between never sees half of it; a signal that ends the run
// removes that name. Links stay links and modes stay as they are, and devices and pipes are written in place.
// A file with a second name, which renaming would part, gets the finished content copied into it.

#include "cli/output_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <fmt/format.h>

#include "report/print/text_sink.hpp"
#include "scenarios/host/left_names.hpp"

namespace penstock {
namespace {

std::string text_of_error(int error) { return error == 0 ? std::string() : std::strerror(error); }

/// An open file, closed where nobody has asked how that went.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }

  int number() const { return number_; }
  /// 0, or what a write that was put off has come to.
  int close() {
    const int number = std::exchange(number_, -1);
    return number < 0 || ::close(number) == 0 ? 0 : errno;
  }

 private:
  int number_;
};

/// The file that a link names, so that the link stays; it need not be there yet. A circle is left as it is.
std::filesystem::path target_of(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_symlink(file, error)) return file;
  // What a link of /proc opens need not be what it says: it is followed as the kernel does, or not at all.
  if (std::filesystem::exists(file, error)) {
    const std::filesystem::path target = std::filesystem::canonical(file, error);
    return error ? file : target;
  }
  constexpr int kMostLinks = 40;  // as many as the kernel follows
  std::filesystem::path target = file;
  for (int links = 0; links < kMostLinks; ++links) {
    if (!std::filesystem::is_symlink(target, error)) return target;
    // Relative to the link's own folder.
    target = target.parent_path() / std::filesystem::read_symlink(target, error);
    if (error) return file;
  }
  return file;
}

/// A device, a pipe or a socket: it is written in place, since renaming would put a file there.
bool is_special(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

// --- a name beside the file -------------------------------------------------------------------------------

/// A file of its own name beside `target`, removed unless it took its place; also by a signal that ends the
/// run.
class Temporary {
 public:
  /// Makes nothing yet.
  explicit Temporary(const std::filesystem::path& target) : target_(target.string()) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  Temporary(Temporary&&) = delete;
  Temporary& operator=(Temporary&&) = delete;
  ~Temporary() {
    if (exists_) ::unlink(name_.c_str());
  }

  const std::string& name() const { return name_; }
  /// The new file; below 0 with errno where it cannot be made. O_EXCL: what stands there already, a link of
  /// somebody else's in a folder that all may write to, is not followed. A run that was killed has left its
  /// name behind, and in a container the next one may have the same number: then another name is taken.
  int open() {
    constexpr int kMostNames = 100;
    for (int i = 0; i < kMostNames; ++i) {
      const std::string more = i == 0 ? std::string() : fmt::format(".{}", i);
      name_ = fmt::format("{}.{}{}.tmp", target_, ::getpid(), more);
      const int descriptor = open_name();
      if (descriptor >= 0 || errno != EEXIST) return descriptor;
    }
    return -1;
  }
  /// Error: empty, or why it could not take the target's place.
  std::string replace(const std::filesystem::path& target) {
    if (std::rename(name_.c_str(), target.c_str()) != 0) return std::strerror(errno);
    left_->is_gone();
    exists_ = false;
    return {};
  }

 private:
  int open_name() {
    left_.reset();
    left_.emplace(name_);
    // Before it is there: a signal that comes while it is made is handled before open() returns.
    left_->is_there();
    const int descriptor = ::open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0) left_->is_gone();
    exists_ = descriptor >= 0;
    return descriptor;
  }

  std::string target_;
  std::string name_;
  std::optional<LeftName> left_;
  bool exists_ = false;
};

}  // namespace

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

int error_of_writing(int descriptor, const TextInPieces& content) {
  int error = 0;
  content([&](std::string_view piece) {
    error = error_of_writing(descriptor, piece);
    return error == 0;
  });
  return error;
}

std::string unwritable(const std::filesystem::path& file) {
  const std::filesystem::path target = target_of(file);
  struct stat status{};
  if (::stat(target.c_str(), &status) == 0) {
    // A mode without any right to write is a wish that holds for root, too.
    const bool is_read_only = (status.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) == 0;
    if (is_read_only) return "it is read-only; make it writable or name another";
    if (::access(target.c_str(), W_OK) != 0) return std::strerror(errno);
    if (!S_ISREG(status.st_mode)) return {};
  } else if (errno == ELOOP) {
    return std::strerror(errno);  // it would be a file in place of a link
  }
  const std::filesystem::path directory = target.parent_path();
  // Made and taken away again: rights alone do not say that a name is too long, or that nobody makes a file
  // there.
  Temporary probe(target);
  const Descriptor opened(probe.open());
  if (opened.number() < 0)
    return fmt::format("{} in {}", std::strerror(errno), directory.empty() ? "." : directory.string());
  return {};
}

namespace {

/// Opens the file as it is and fills it by `error_of_filling`. Empty, or why not.
template <class Fill>
std::string write_in_place(const std::filesystem::path& file, int flags, const Fill& error_of_filling) {
  Descriptor opened(::open(file.c_str(), O_WRONLY | O_CLOEXEC | flags));
  if (opened.number() < 0) return std::strerror(errno);
  const int error = error_of_filling(opened.number());
  const int later = opened.close();
  return text_of_error(error != 0 ? error : later);
}

/// 0 when all of one file, from its beginning, was written to the other, otherwise the error.
int error_of_copying(int from, int to) {
  std::vector<char> piece(std::size_t{1} << 20U);
  for (off_t at = 0;;) {
    const ssize_t size = ::pread(from, piece.data(), piece.size(), at);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return size < 0 ? errno : 0;
    if (const int error = error_of_writing(to, {piece.data(), static_cast<std::size_t>(size)})) return error;
    at += size;
  }
}

/// Writes it beside the target, which it then replaces. Empty, or why not.
std::string write_whole(const std::filesystem::path& target, const TextInPieces& content) {
  Temporary temporary(target);
  Descriptor file(temporary.open());
  if (file.number() < 0) return std::strerror(errno);
  if (const int error = error_of_writing(file.number(), content)) return std::strerror(error);
  struct stat before{};
  const bool replaces = ::stat(target.c_str(), &before) == 0;
  if (replaces) {
    ::fchmod(file.number(), before.st_mode & 07777U);
    static_cast<void>(::fchown(file.number(), before.st_uid, before.st_gid));  // as far as that is ours to do
  }
  // That there was room for it beside the file is all that can be known of one with several names.
  if (replaces && before.st_nlink > 1)
    return write_in_place(target, O_TRUNC, [&](int to) { return error_of_copying(file.number(), to); });
  // Closed before it is renamed: what was put off and failed (a full disk behind a network) shows only now.
  if (const int error = file.close()) return std::strerror(error);
  return temporary.replace(target);
}

}  // namespace

std::string problem_of_writing(const std::filesystem::path& file, const TextInPieces& content) {
  if (std::string why = unwritable(file); !why.empty()) return why;
  const std::filesystem::path target = target_of(file);
  if (!is_special(target)) return write_whole(target, content);
  // Nothing is cut off: devices and pipes have no length.
  return write_in_place(target, 0, [&](int to) { return error_of_writing(to, content); });
}

}  // namespace penstock
