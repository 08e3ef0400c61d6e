// A file appears whole or not at all: its content goes to a file beside it, without a name where there are
// such files, which then takes its place, so that a reader or a run that is ended in between never sees half
// of it. Links stay links and modes stay as they are, and devices and pipes are written in place. A file with
// a second name, which renaming would part, gets the finished content copied into it.

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

/// A file beside `target` that may take its place. It has no name until then where the place knows such files
/// (O_TMPFILE), so that even a run that is killed leaves nothing; elsewhere a name of its own, which is
/// removed unless it took the target's place, also by a signal that ends the run.
class Temporary {
 public:
  /// Makes nothing yet.
  Temporary(const std::filesystem::path& target, NewFile kind) : target_(target), kind_(kind) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  Temporary(Temporary&&) = delete;
  Temporary& operator=(Temporary&&) = delete;
  ~Temporary() {
    if (has_name_) ::unlink(name_.c_str());
  }

  bool has_name() const { return has_name_; }

  /// The new file; below 0 with errno where it cannot be made.
  int open() {
    if (kind_ == NewFile::nameless_where_known) {
      if (const int nameless = open_nameless(); nameless >= 0) return nameless;
    }
    // O_EXCL: what stands there already, a link of somebody else's in a folder that all may write to, is not
    // followed.
    return with_new_name(
        [](const char* name) { return ::open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
  }
  /// Puts the file that open() gave where `target` is or shall be. 0, or why it could not be done (errno).
  int replace(int descriptor) {
    if (!has_name_) {
      const std::string opened = fmt::format("/proc/self/fd/{}", descriptor);
      const auto link_to = [&](const char* name) {
        return ::linkat(AT_FDCWD, opened.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW);
      };
      // Where there is nothing to replace nobody ever sees another name.
      if (link_to(target_.c_str()) == 0) return 0;
      if (errno != EEXIST || with_new_name(link_to) < 0) return errno;
    }
    if (std::rename(name_.c_str(), target_.c_str()) != 0) return errno;
    left_->is_gone();
    has_name_ = false;
    return 0;
  }

 private:
  std::string name_of(int number) const {
    const std::string more = number == 0 ? std::string() : fmt::format(".{}", number);
    return fmt::format("{}.{}{}.tmp", target_.string(), ::getpid(), more);
  }

  int open_nameless() const {
    // That a name is too long, or that no name leads to what is open, would show only in the end.
    if (::access(name_of(0).c_str(), F_OK) != 0 && errno == ENAMETOOLONG) return -1;
    if (::access("/proc/self/fd", X_OK) != 0) return -1;
    const std::filesystem::path folder = target_.parent_path();
    return ::open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
  }

  /// What `make` gives for a name that nobody has. A run that was killed may have left one, and in a
  /// container the next run may have the same number: then another is taken.
  template <class Make>
  int with_new_name(const Make& make) {
    constexpr int kMostNames = 100;
    for (int i = 0; i < kMostNames; ++i) {
      name_ = name_of(i);
      left_.reset();
      left_.emplace(name_);
      // Before it is there: a signal that comes while it is made is handled before `make` returns.
      left_->is_there();
      const int made = make(name_.c_str());
      has_name_ = made >= 0;
      if (has_name_) return made;
      left_->is_gone();
      if (errno != EEXIST) return made;
    }
    return -1;
  }

  std::filesystem::path target_;
  NewFile kind_;
  std::string name_;
  std::optional<LeftName> left_;
  bool has_name_ = false;
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

namespace {

bool is_same_regular_file(const struct stat& one, const struct stat& other) {
  return S_ISREG(one.st_mode) && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/// Where a file would be made: without links, dots and the folder that the process is in. Empty where that
/// cannot be said.
std::filesystem::path place_of(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(target_of(file), error);
  if (error) return {};
  std::filesystem::path place = std::filesystem::weakly_canonical(whole, error);
  return error ? std::filesystem::path() : place;
}

}  // namespace

bool is_same_file(const std::filesystem::path& one, const std::filesystem::path& other) {
  struct stat first{};
  struct stat second{};
  const bool first_is_there = ::stat(one.c_str(), &first) == 0;
  const bool second_is_there = ::stat(other.c_str(), &second) == 0;
  if (first_is_there || second_is_there)
    return first_is_there && second_is_there && is_same_regular_file(first, second);
  const std::filesystem::path place = place_of(one);
  return !place.empty() && place == place_of(other);
}

bool is_standard_output(const std::filesystem::path& file) {
  struct stat printed{};
  struct stat named{};
  return ::fstat(STDOUT_FILENO, &printed) == 0 && ::stat(file.c_str(), &named) == 0 &&
         is_same_regular_file(printed, named);
}

std::string unwritable(const std::filesystem::path& file, NewFile kind) {
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
  Temporary probe(target, kind);
  const Descriptor opened(probe.open());
  if (opened.number() < 0)
    return fmt::format("{} in {}", std::strerror(errno), directory.empty() ? "." : directory.string());
  return {};
}

namespace {

/// Opens the file as it is and fills it by `error_of_filling`. Empty, or why not.
template <class Fill>
std::string write_in_place(const std::filesystem::path& file, int flags, const Fill& error_of_filling) {
  Descriptor opened(::open(file.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666));
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
std::string write_whole(const std::filesystem::path& target, const TextInPieces& content, NewFile kind) {
  Temporary temporary(target, kind);
  Descriptor file(temporary.open());
  if (file.number() < 0) return std::strerror(errno);
  if (const int error = error_of_writing(file.number(), content)) return std::strerror(error);
  struct stat before{};
  const bool replaces = ::stat(target.c_str(), &before) == 0;
  if (replaces) {
    ::fchmod(file.number(), before.st_mode & 07777U);
    static_cast<void>(::fchown(file.number(), before.st_uid, before.st_gid));  // as far as that is ours to do
  }
  const auto copy_into = [&](int to) { return error_of_copying(file.number(), to); };
  // That there was room for it beside the file is all that can be known of one with several names.
  if (replaces && before.st_nlink > 1) return write_in_place(target, O_TRUNC, copy_into);
  // What was put off and failed (a full disk behind a network) shows only when the file, or its double, is
  // closed.
  if (const int error = Descriptor(::dup(file.number())).close()) return std::strerror(error);
  const int error = temporary.replace(file.number());
  if (error == 0 || temporary.has_name()) return text_of_error(error);
  // The content is there, and only a name for it is not to be had (under a policy that forbids links).
  return write_in_place(target, O_CREAT | O_TRUNC, copy_into);
}

}  // namespace

std::string problem_of_writing(const std::filesystem::path& file, const TextInPieces& content, NewFile kind) {
  if (std::string why = unwritable(file, kind); !why.empty()) return why;
  const std::filesystem::path target = target_of(file);
  if (!is_special(target)) return write_whole(target, content, kind);
  // Nothing is cut off: devices and pipes have no length.
  return write_in_place(target, 0, [&](int to) { return error_of_writing(to, content); });
}

}  // namespace penstock
