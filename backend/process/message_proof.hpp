#pragma once
// Proves with HMAC-SHA256 (RFC 2104, FIPS 198-1) that the sender of a message knows the job's secret. The
// proof also shows that the message is the next one of this connection.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace penstock {

/// A random number that one end of a connection chooses for this connection.
using Nonce = std::array<std::uint8_t, 32>;
using Proof = std::array<std::uint8_t, 32>;

/// Returns a random nonce from the operating system. Throws std::runtime_error if the system provides no
/// random bytes.
Nonce new_nonce();

/// The two ends of a connection. The listener accepted the connection and the caller opened it.
enum class Side : std::uint8_t { listener, caller };

/// A generator of the proofs of one direction of a connection. Both ends have one and count the messages
/// alike.
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

  /// Returns the proof of the next message, which consists of `header` and `body`.
  Proof next(std::span<const std::uint8_t> header, std::span<const std::uint8_t> body);

 private:
  struct Key;
  std::unique_ptr<Key> key_;
  std::uint64_t count_ = 0;
};

/// Returns true if two proofs are equal. The time it takes does not depend on where they differ, so an
/// attacker learns nothing from it.
bool same(const Proof& a, const Proof& b);

}  // namespace penstock
