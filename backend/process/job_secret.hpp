#pragma once
// The secret of a job, which only the job's processes have. The environment variable PENSTOCK_SECRET may
// contain it. Otherwise rank 0 makes a secret and writes it to a file that only its user can read.

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include <tl/expected.hpp>

#include "scenarios/host/left_names.hpp"

namespace penstock {

/// Returns 256 random bits as 64 hexadecimal digits.
std::string new_secret();

/// Returns the path of the file that contains the secret of a job. `port` is the port at which the job's
/// rank 0 listens.
std::filesystem::path secret_path(std::uint16_t port);

/// The file that contains the secret of a job. It is removed when this object is destroyed. It is also
/// removed when SIGINT, SIGTERM or SIGHUP ends the process, unless the process handles or ignores the
/// signal. If the process is killed in another way, the next job removes the file, or a rank that looks for
/// it.
class SecretFile {
 public:
  /// Writes the secret into the file for this port. Replaces the file of an earlier job with this port.
  /// Also removes the files of other ports whose processes have ended. Fails if the file cannot be created,
  /// or if its folder belongs to another user.
  static tl::expected<SecretFile, std::string> leave(std::uint16_t port, const std::string& secret);
  SecretFile(SecretFile&& other) noexcept;
  SecretFile& operator=(SecretFile&& other) noexcept;
  ~SecretFile();

 private:
  /// Prepares the object without creating the file. write() creates it.
  explicit SecretFile(std::filesystem::path path);
  tl::expected<void, std::string> write(const std::string& secret);

  std::filesystem::path path_;  // empty after the object was moved from
  int lock_ = -1;  // descriptor of the locked file; the kernel releases the lock when this process ends
  LeftName left_;
  LeftName left_beside_;
};

/// Returns the secret that rank 0 has written to the file for this port. Fails if the file does not exist,
/// or if other users could have written it.
tl::expected<std::string, std::string> left_secret(std::uint16_t port);

/// Removes the secret file of a rank 0 that has ended without removing it. If rank 0 still holds the lock,
/// waits a moment, because rank 0 may be about to end.
void remove_abandoned_secret(std::uint16_t port);

// Proves with HMAC-SHA256 (RFC 2104, FIPS 198-1) that the sender of a message knows the job's secret. The
// proof also shows that the message is the next one of this connection.

/// A random number that one end of a connection chooses for this connection.
using Nonce = std::array<std::uint8_t, 32>;
using Proof = std::array<std::uint8_t, 32>;

/// Returns a random nonce from the operating system. Throws std::runtime_error if the system provides no
/// random bytes.
Nonce new_nonce();

/// The end of a connection. The listener has accepted the connection, and the caller has opened it.
enum class Side : std::uint8_t { listener, caller };

/// A generator of authentication codes (proofs) for the messages in one direction of a connection. Both
/// ends have one for each direction, and both count the messages in the same way.
class MessageProof {
 public:
  struct Session {
    Nonce of_listener{};
    Nonce of_caller{};
    Side sender = Side::listener;
  };
  MessageProof(const std::string& secret, const Session& session);
  MessageProof(const MessageProof&) = delete;
  MessageProof& operator=(const MessageProof&) = delete;
  ~MessageProof();

  /// Returns the authentication code of the next message, which consists of `header` and `body`.
  Proof next(std::span<const std::uint8_t> header, std::span<const std::uint8_t> body);

 private:
  struct Key;
  std::unique_ptr<Key> key_;
  std::uint64_t count_ = 0;
};

/// Returns true if two authentication codes are equal. The time that this takes does not depend on where
/// they differ, so an attacker learns nothing from it.
bool same(const Proof& a, const Proof& b);

}  // namespace penstock
