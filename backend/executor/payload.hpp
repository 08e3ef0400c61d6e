#pragma once
// The content of messages between stages, such as tensors. Only the stage modules (stage_module.hpp) know its
// type. The executor and the transports pass it on unread.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace penstock {

/// The base class of everything that stage modules send between stages.
class PayloadContent {
 public:
  PayloadContent() = default;
  PayloadContent(const PayloadContent&) = delete;
  PayloadContent& operator=(const PayloadContent&) = delete;
  virtual ~PayloadContent() = default;
};

/// The content of one message. It has a single owner. It is null if the message carries no data.
using Payload = std::unique_ptr<PayloadContent>;
/// The content that one rank contributes to a collective. All members of the collective read it.
using SharedPayload = std::shared_ptr<const PayloadContent>;

/// Converts payloads to bytes and back, so that a transport can send them to another process. Each family of
/// stage modules has its own codec. The transport passes it no null payloads and calls it only from the
/// rank's worker thread. A codec that fails throws an exception.
class PayloadCodec {
 public:
  PayloadCodec() = default;
  PayloadCodec(const PayloadCodec&) = delete;
  PayloadCodec& operator=(const PayloadCodec&) = delete;
  virtual ~PayloadCodec() = default;

  virtual std::vector<std::uint8_t> encode(const PayloadContent& content) const = 0;
  virtual Payload decode(std::span<const std::uint8_t> bytes) const = 0;
};

}  // namespace penstock
