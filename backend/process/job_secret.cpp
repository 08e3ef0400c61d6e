// Stores the secret of a job, by which its ranks recognise each other, in a file:
//
//     TMPDIR/penstock-UID/PORT.secret      folder 0700, file 0600, both of this user
//
// The file is written under a temporary name and renamed, so that no rank reads an incomplete secret. In a
// folder that all users may write, an attacker could create the folder or the file first. Both must therefore
// belong to this user and be closed to other users before anything is read. If a signal ends rank 0 while it
// waits, it removes both names. It cannot do this after SIGKILL. Therefore rank 0 also holds a lock on its
// file (flock), which ends with the process. Other ranks may remove a file without a lock. Tests:
// tests/backend/job_secret_test.cpp.

#include "backend/process/job_secret.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <openssl/types.h>
#include <tl/expected.hpp>

#include "scenarios/host/left_names.hpp"
#include "text/escaping.hpp"

namespace penstock {

namespace {

// The largest number of bytes that are read from the file. new_secret() writes 64 bytes.
constexpr std::size_t kMostSecret = 4096;
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
  return fmt::format("{} is not private: expected its owner to be this user and no rights of others",
                     path.string());
}

/// Returns an error if there is no folder for temporary files. The secret would then be written to the
/// working folder, and ranks in other working folders would not find it.
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

/// Returns the name of the temporary file into which the secret is first written.
std::string name_beside(const std::filesystem::path& path) {
  return fmt::format("{}.{}", path.string(), getpid());
}

// --- files of processes that were killed ---

bool is_same_file(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/// Removes the file if no process holds its lock. Returns false if a process holds the lock, which shows
/// that the job still runs.
bool remove_if_abandoned(const std::filesystem::path& path) {
  const OpenFile file(path, O_RDONLY);
  struct stat found{};
  if (file.get() < 0 || fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode) || !is_own(found))
    return true;
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
  // Another job may have replaced the file since it was opened, so the name must still refer to the opened
  // file.
  struct stat named{};
  if (lstat(path.c_str(), &named) == 0 && is_same_file(found, named)) unlink(path.c_str());
  return true;
}

/// Returns true if a file may be abandoned. A temporary file has no lock at the moment of its creation.
/// Therefore it counts as abandoned only after a minute.
bool may_be_abandoned(const std::filesystem::path& path) {
  constexpr std::time_t kLong = 60;  // seconds
  if (path.extension() == ".secret") return true;
  struct stat found{};
  return path.stem().extension() == ".secret" && lstat(path.c_str(), &found) == 0 &&
         found.st_mtime < std::time(nullptr) - kLong;
}

void remove_abandoned_in(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::directory_iterator next(folder, error);
  // A range-based loop would throw if a later step of reading the folder fails. This loop stops instead.
  for (; !error && next != std::filesystem::directory_iterator(); next.increment(error)) {
    if (may_be_abandoned(next->path())) remove_if_abandoned(next->path());
  }
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
  remove_abandoned_in(path.parent_path());
  SecretFile file(path);
  if (auto written = file.write(secret); !written) return tl::unexpected(written.error());
  return file;
}

SecretFile::SecretFile(std::filesystem::path path)
    : path_(std::move(path)), left_(path_.string()), left_beside_(name_beside(path_)) {
  left_.is_there();
  left_beside_.is_there();
}

tl::expected<void, std::string> SecretFile::write(const std::string& secret) {
  const std::string beside = name_beside(path_);
  // A dead process with the same process id may have left this file. The open() below fails if the file
  // exists.
  unlink(beside.c_str());
  constexpr int kAnew = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  lock_ = open(beside.c_str(), kAnew, S_IRUSR | S_IWUSR);
  // The lock is taken before the file gets its final name. If the file system has no locks, the secret is
  // used without one.
  if (lock_ >= 0) flock(lock_, LOCK_EX | LOCK_NB);
  if (lock_ < 0 || ::write(lock_, secret.data(), secret.size()) != static_cast<ssize_t>(secret.size()))
    return tl::unexpected(failure("write the job's secret to", beside));
  if (rename(beside.c_str(), path_.c_str()) != 0)
    return tl::unexpected(failure("write the job's secret to", path_));
  return {};
}

SecretFile::SecretFile(SecretFile&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      lock_(std::exchange(other.lock_, -1)),
      left_(std::move(other.left_)),
      left_beside_(std::move(other.left_beside_)) {}

SecretFile& SecretFile::operator=(SecretFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  std::swap(left_, other.left_);
  std::swap(left_beside_, other.left_beside_);
  return *this;
}

SecretFile::~SecretFile() {
  if (path_.empty()) return;
  unlink(name_beside(path_).c_str());  // this file still exists if writing or renaming it failed
  unlink(path_.c_str());
  if (lock_ >= 0) close(lock_);
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

void remove_abandoned_secret(std::uint16_t port) {
  // A process that is being killed closes its connections first and may lose its lock a moment later. So
  // several attempts are made.
  constexpr int kTries = 10;
  for (int tried = 0; tried < kTries && !remove_if_abandoned(secret_path(port)); ++tried)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

// Computes the proof (HMAC) of each message. Each direction of each connection has its own key, and each
// message has a number:
//
//     key   = HMAC(secret, "penstock 1" | listener's nonce | caller's nonce | sender)
//     proof = HMAC(key, number | header | body)
//
// An attacker therefore cannot use a recorded message again later, in the other direction, or on another
// connection. The secret itself is never sent. Tests: tests/backend/process_attacks_test.cpp.

namespace {

void require(bool done) {
  if (!done) throw std::runtime_error("OpenSSL has no HMAC-SHA256 or no randomness");
}

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace

struct MessageProof::Key {
  struct Free {
    void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
  };

  explicit Key(std::span<const std::uint8_t> secret) {
    EVP_MAC* const hmac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
    require(hmac != nullptr);
    context.reset(EVP_MAC_CTX_new(hmac));
    EVP_MAC_free(hmac);
    // OpenSSL only reads this text, but its function requires a pointer to non-const.
    std::array<char, 7> digest{"SHA256"};
    const std::array parameters = {OSSL_PARAM_construct_utf8_string("digest", digest.data(), 0),
                                   OSSL_PARAM_construct_end()};
    require(context != nullptr &&
            EVP_MAC_init(context.get(), secret.data(), secret.size(), parameters.data()) == 1);
  }

  template <typename... Part>
  Proof of(const Part&... parts) const {
    Proof proof{};
    std::size_t size = 0;
    // With a null key argument, OpenSSL begins a new message and uses the existing key again.
    require(EVP_MAC_init(context.get(), nullptr, 0, nullptr) == 1);
    (require(EVP_MAC_update(context.get(), parts.data(), parts.size()) == 1), ...);
    require(EVP_MAC_final(context.get(), proof.data(), &size, proof.size()) == 1 && size == proof.size());
    return proof;
  }

  std::unique_ptr<EVP_MAC_CTX, Free> context;
};

Nonce new_nonce() {
  Nonce nonce{};
  require(RAND_bytes(nonce.data(), static_cast<int>(nonce.size())) == 1);
  return nonce;
}

/// Derives the key for one direction of a connection from the secret and the nonces of both ends. Both
/// nonces are needed, so that neither end alone can cause the reuse of an old key.
MessageProof::MessageProof(const std::string& secret, const Session& session) {
  const std::array sender = {static_cast<std::uint8_t>(session.sender)};
  const Proof own =
      Key(bytes_of(secret)).of(bytes_of("penstock 1"), session.of_listener, session.of_caller, sender);
  key_ = std::make_unique<Key>(own);
}

MessageProof::~MessageProof() = default;

Proof MessageProof::next(std::span<const std::uint8_t> header, std::span<const std::uint8_t> body) {
  std::array<std::uint8_t, sizeof(count_)> number{};
  // The lowest byte comes first on every machine, because both ends must compute the proof from equal bytes.
  for (std::size_t i = 0; i < number.size(); ++i) number[i] = static_cast<std::uint8_t>(count_ >> (8 * i));
  ++count_;
  return key_->of(number, header, body);
}

bool same(const Proof& a, const Proof& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace penstock
