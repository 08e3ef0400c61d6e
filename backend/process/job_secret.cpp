//   TMPDIR/penstock-UID/PORT.secret      folder 0700, file 0600, both of this user
//
// The file is written beside its place and renamed, so that no rank reads half of it. Before anything is
// read the folder and the file must be this user's own and closed to others: in a folder where everybody may
// write, somebody else may have been first. A signal that ends rank 0 while it waits removes both names.

#include "backend/process/job_secret.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "backend/process/message_proof.hpp"
#include "report/print/escaping.hpp"
#include "scenarios/host/left_names.hpp"

namespace penstock {
namespace {

constexpr std::size_t kMostSecret = 4096;  // of what is read, whoever wrote it; new_secret() takes 64
constexpr mode_t kOthers = S_IRWXG | S_IRWXO;

class OpenFile {
 public:
  OpenFile(const std::filesystem::path& path, int flags)
      : descriptor_(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR)) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

std::string failure(const char* what, const std::filesystem::path& path) {
  const int error = errno;
  return fmt::format("cannot {} {}: {}", what, path.string(), std::generic_category().message(error));
}

bool is_own(const struct stat& found) { return found.st_uid == geteuid() && (found.st_mode & kOthers) == 0; }

std::string not_own(const std::filesystem::path& path) {
  return fmt::format(
      "{} is not this user's alone: expected its owner to be this user and no rights of others",
      path.string());
}

/// Nothing where there is a folder for temporary files: without one the secret would lie where the process
/// was started, and ranks that were started elsewhere would not find it.
std::optional<std::string> fault_of_temporary_folder() {
  std::error_code error;
  static_cast<void>(std::filesystem::temp_directory_path(error));
  if (!error) return std::nullopt;
  const char* named = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe): nobody sets any
  return fmt::format("TMPDIR{} is no folder for the job's secret: {}",
                     named == nullptr ? "" : fmt::format(" ({})", shown_name(named)), error.message());
}

tl::expected<void, std::string> make_own_folder(const std::filesystem::path& folder) {
  if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    return tl::unexpected(failure("make the folder", folder));
  struct stat found{};
  if (lstat(folder.c_str(), &found) != 0) return tl::unexpected(failure("look at", folder));
  if (!S_ISDIR(found.st_mode) || !is_own(found)) return tl::unexpected(not_own(folder));
  return {};
}

/// What the secret is written to first.
std::string name_beside(const std::filesystem::path& path) {
  return fmt::format("{}.{}", path.string(), getpid());
}

}  // namespace

std::string new_secret() { return fmt::format("{:02x}", fmt::join(new_nonce(), "")); }

std::filesystem::path secret_path(std::uint16_t port) {
  std::error_code ignored;
  return std::filesystem::temp_directory_path(ignored) / fmt::format("penstock-{}", geteuid()) /
         fmt::format("{}.secret", port);
}

tl::expected<SecretFile, std::string> SecretFile::leave(std::uint16_t port, const std::string& secret) {
  if (auto fault = fault_of_temporary_folder()) return tl::unexpected(*std::move(fault));
  const std::filesystem::path path = secret_path(port);
  if (auto made = make_own_folder(path.parent_path()); !made) return tl::unexpected(made.error());
  SecretFile file(path);
  if (auto written = file.write(secret); !written) return tl::unexpected(written.error());
  return file;
}

SecretFile::SecretFile(std::filesystem::path path)
    : path_(std::move(path)), left_(path_.string()), left_beside_(name_beside(path_)) {
  left_.is_there();
  left_beside_.is_there();
}

tl::expected<void, std::string> SecretFile::write(const std::string& secret) const {
  const std::string beside = name_beside(path_);
  // What an earlier process of the same number may have left; O_EXCL below makes the file anew or not at
  // all.
  unlink(beside.c_str());
  {
    const OpenFile file(beside, O_WRONLY | O_CREAT | O_EXCL);
    const bool written = file.get() >= 0 && ::write(file.get(), secret.data(), secret.size()) ==
                                                static_cast<ssize_t>(secret.size());
    if (!written) return tl::unexpected(failure("write the job's secret to", beside));
  }
  if (rename(beside.c_str(), path_.c_str()) != 0)
    return tl::unexpected(failure("write the job's secret to", path_));
  return {};
}

SecretFile::SecretFile(SecretFile&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      left_(std::move(other.left_)),
      left_beside_(std::move(other.left_beside_)) {}

SecretFile& SecretFile::operator=(SecretFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(left_, other.left_);
  std::swap(left_beside_, other.left_beside_);
  return *this;
}

SecretFile::~SecretFile() {
  if (path_.empty()) return;
  unlink(name_beside(path_).c_str());  // there where it could not be written, or not be renamed
  unlink(path_.c_str());
}

tl::expected<std::string, std::string> left_secret(std::uint16_t port) {
  if (auto fault = fault_of_temporary_folder()) return tl::unexpected(*std::move(fault));
  const std::filesystem::path path = secret_path(port);
  const OpenFile file(path, O_RDONLY);
  if (file.get() < 0) return tl::unexpected(failure("read the job's secret from", path));
  struct stat found{};
  if (fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode) || !is_own(found))
    return tl::unexpected(not_own(path));
  std::array<char, kMostSecret> text{};
  const ssize_t size = read(file.get(), text.data(), text.size());
  if (size <= 0) return tl::unexpected(fmt::format("{} holds no secret", path.string()));
  return std::string(text.data(), static_cast<std::size_t>(size));
}

}  // namespace penstock
