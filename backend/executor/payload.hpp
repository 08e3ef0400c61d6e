#pragma once
// The content of messages: tensors of a kind that only the stage modules know (stage_module.hpp). The
// executor and the transports do not look inside.

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

/// The content of one message, with a single owner. It is null if the message carries no data.
using Payload = std::unique_ptr<PayloadContent>;
/// The content that one member gives to a collective. All members read it.
using SharedPayload = std::shared_ptr<const PayloadContent>;

/// Converts payloads to bytes and back, so that they can go to another process. Each family of stage modules
/// has its own. Null payloads are not passed to it. Calls come from the rank's one worker thread. A failure
/// is an exception.
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
