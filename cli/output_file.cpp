// Writes a file completely or not at all. A reader never sees half of a file, and an interrupted run never
// leaves half of a file:
//
//   result.json.4711.tmp  <- text, flushed          rename          result.json
//
// tests/cli/output_test.cpp checks which files remain after signals and faults.

#include "cli/output.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
#include <zconf.h>
#include <zlib.h>

#include <fmt/format.h>

#include "report/print/table.hpp"
#include "scenarios/host/left_names.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

std::string text_of_error(int error) { return error == 0 ? std::string() : std::strerror(error); }

/// An open file descriptor. The destructor closes it if close() was not called.
class OpenDescriptor {
 public:
  explicit OpenDescriptor(int number) : number_(number) {}
  OpenDescriptor(const OpenDescriptor&) = delete;
  OpenDescriptor& operator=(const OpenDescriptor&) = delete;
  OpenDescriptor(OpenDescriptor&&) = delete;
  OpenDescriptor& operator=(OpenDescriptor&&) = delete;
  ~OpenDescriptor() { close(); }

  int number() const { return number_; }
  /// Closes the file. Returns 0, or the error of an earlier write that the system reports only at this
  /// time.
  int close() {
    const int number = std::exchange(number_, -1);
    return number < 0 || ::close(number) == 0 ? 0 : errno;
  }

 private:
  int number_;
};

/// Returns the file to which a symbolic link refers, so that writing replaces that file and not the link.
fs::path target_of(const fs::path& file) {
  std::error_code error;
  const fs::path target = fs::canonical(file, error);
  return error ? file : target;
}

/// Returns true if the file is a device, a pipe or a socket. Such a file must be written directly, because
/// a file that is renamed to its name would replace it.
bool is_special(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

/// A temporary file in the same folder as `target`, which it later replaces. If it does not replace
/// `target`, it is removed, even if a signal ends the run.
class Temporary {
 public:
  explicit Temporary(const fs::path& target)
      : name_(fmt::format("{}.{}.tmp", target.string(), ::getpid())), left_(name_) {
    // A killed run may have left a file with this name. The name contains the process number, and in a
    // container the next run may have the same number.
    ::unlink(name_.c_str());
    left_.is_there();  // is called before the file exists, because a signal may come at any time
    // With O_EXCL, open() does not follow a link that another user has created in a shared folder.
    number_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    error_ = number_ < 0 ? errno : 0;
    if (error_ != 0) left_.is_gone();
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  Temporary(Temporary&&) = delete;
  Temporary& operator=(Temporary&&) = delete;
  ~Temporary() {
    if (error_ == 0) ::unlink(name_.c_str());
  }

  /// Returns the file descriptor of the open file. The caller must close it.
  int number() const { return number_; }
  /// Returns 0 if the temporary file was created, and otherwise the error number (errno).
  int error() const { return error_; }
  /// Renames the temporary file to `target`. If `target` exists, it is replaced. Returns 0, or the error
  /// number (errno).
  int replace(const fs::path& target) {
    if (std::rename(name_.c_str(), target.c_str()) != 0) return errno;
    left_.is_gone();
    return 0;
  }

 private:
  std::string name_;
  LeftName left_;
  int number_ = -1;
  int error_ = 0;
};

}  // namespace

int error_of_writing(int descriptor, std::string_view content) {
  // Linux handles a signal only after the current write to a file, so long texts are written in pieces.
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

/// Returns the absolute path without links and dots. The file need not exist. The path is empty if it cannot
/// be determined.
fs::path place_of(const fs::path& file) {
  std::error_code error;
  fs::path place = fs::weakly_canonical(fs::absolute(file, error), error);
  return error ? fs::path() : place;
}

}  // namespace

bool is_same_file(const fs::path& one, const fs::path& other) {
  struct stat first{};
  struct stat second{};
  const bool first_is_there = ::stat(one.c_str(), &first) == 0;
  const bool second_is_there = ::stat(other.c_str(), &second) == 0;
  if (first_is_there || second_is_there)
    return first_is_there && second_is_there && is_same_regular_file(first, second);
  const fs::path place = place_of(one);
  return !place.empty() && place == place_of(other);
}

bool is_standard_output(const fs::path& file) {
  struct stat printed{};
  struct stat named{};
  return ::fstat(STDOUT_FILENO, &printed) == 0 && ::stat(file.c_str(), &named) == 0 &&
         is_same_regular_file(printed, named);
}

std::string unwritable(const fs::path& file) {
  const fs::path target = target_of(file);
  std::error_code error;
  if (fs::is_symlink(target, error) && !fs::exists(target, error))
    return "it is a link to a file that is not there; name that file";
  struct stat status{};
  if (::stat(target.c_str(), &status) == 0) {
    // Root could write to such a file. The file is refused nevertheless, because a user has chosen a mode
    // without any write permission.
    const bool is_read_only = (status.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) == 0;
    if (is_read_only) return "it is read-only; make it writable or name another";
    if (::access(target.c_str(), W_OK) != 0) return std::strerror(errno);
    if (is_special(target)) return {};
  }
  // Permissions alone do not show whether a name is too long or whether a file can be created. A temporary
  // file is therefore created and removed again.
  const Temporary probe(target);
  const OpenDescriptor opened(probe.number());
  if (probe.error() == 0) return {};
  const std::string folder = target.parent_path().string();
  return fmt::format("{} in {}", std::strerror(probe.error()), folder.empty() ? "." : folder);
}

namespace {

std::string write_in_place(const fs::path& file, const TextInPieces& content) {
  // The file is not truncated, because devices and pipes have no length.
  OpenDescriptor opened(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (opened.number() < 0) return std::strerror(errno);
  const int error = error_of_writing(opened.number(), content);
  const int later = opened.close();
  return text_of_error(error != 0 ? error : later);
}

std::string write_beside(const fs::path& target, const TextInPieces& content) {
  Temporary temporary(target);
  if (temporary.error() != 0) return std::strerror(temporary.error());
  OpenDescriptor file(temporary.number());
  if (const int error = error_of_writing(file.number(), content)) return std::strerror(error);
  struct stat before{};
  if (::stat(target.c_str(), &before) == 0) ::fchmod(file.number(), before.st_mode & 07777U);
  // A network file system may report a full disk only at fsync(). Some file systems do not support fsync()
  // and return EINVAL, which is ignored.
  if (::fsync(file.number()) != 0 && errno != EINVAL) return std::strerror(errno);
  if (const int error = file.close()) return std::strerror(error);
  return text_of_error(temporary.replace(target));
}

/// A gzip stream that passes the compressed bytes to a sink.
class GzipStream {
 public:
  explicit GzipStream(const TextSink& sink) : sink_(sink) {
    constexpr int kGzipWindow = 15 + 16;  // 16 asks for the header of gzip
    constexpr int kMemoryLevel = 8;       // the default of zlib
    const int status = deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, kMemoryLevel,
                                    Z_DEFAULT_STRATEGY);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status != Z_OK) throw std::runtime_error("zlib cannot compress");
  }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;
  GzipStream(GzipStream&&) = delete;
  GzipStream& operator=(GzipStream&&) = delete;
  ~GzipStream() { deflateEnd(&stream_); }

  /// Compresses `text`, or ends the stream if `flush` is Z_FINISH. Returns false if the sink needs no more
  /// bytes.
  bool write(std::string_view text, int flush) {
    std::string bytes(text);  // zlib takes a pointer to bytes that are not constant
    stream_.next_in = reinterpret_cast<Bytef*>(bytes.data());  // NOLINT(*-reinterpret-cast): zlib's type
    stream_.avail_in = static_cast<uInt>(bytes.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(out_.data());  // NOLINT(*-reinterpret-cast)
      stream_.avail_out = static_cast<uInt>(out_.size());
      deflate(&stream_, flush);
      is_wanted_ = is_wanted_ && sink_(std::string_view(out_.data(), out_.size() - stream_.avail_out));
    } while (stream_.avail_out == 0 && is_wanted_);
    return is_wanted_;
  }

 private:
  const TextSink& sink_;
  z_stream stream_{};
  std::array<char, 1U << 16U> out_{};
  bool is_wanted_ = true;
};

}  // namespace

std::string problem_of_writing(const fs::path& file, const TextInPieces& content) {
  if (std::string why = unwritable(file); !why.empty()) return why;
  const fs::path target = target_of(file);
  return is_special(target) ? write_in_place(target, content) : write_beside(target, content);
}

TextInPieces compressed(TextInPieces text) {
  return [text = std::move(text)](const TextSink& sink) {
    GzipStream stream(sink);
    text([&stream](std::string_view piece) { return stream.write(piece, Z_NO_FLUSH); });
    stream.write({}, Z_FINISH);
  };
}

}  // namespace penstock
