#pragma once
// Proves that a message comes from a process that knows the job's secret, belongs to this connection, and is
// the next one on it: HMAC-SHA256 (RFC 2104, FIPS 198-1).

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace penstock {

/// A random number that one end of a connection has chosen for it.
using Nonce = std::array<std::uint8_t, 32>;
using Proof = std::array<std::uint8_t, 32>;

/// Returns a random nonce from the operating system. Throws std::runtime_error if the system has no
/// randomness.
Nonce new_nonce();

/// The two ends of a connection: the one that accepted it and the one that opened it.
enum class Side : std::uint8_t { listener, caller };

/// The proofs of one direction of a connection. Both ends have one and count messages in the same way.
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

  /// Returns the proof of the next message, `header` followed by `body`.
  Proof next(std::span<const std::uint8_t> header, std::span<const std::uint8_t> body);

 private:
  struct Key;
  std::unique_ptr<Key> key_;
  std::uint64_t count_ = 0;
};

/// Compares two proofs. The time does not depend on where they differ.
bool same(const Proof& a, const Proof& b);

}  // namespace penstock
