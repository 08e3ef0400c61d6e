#pragma once
// What messages carry: tensors of a kind that only the stage modules know (stage_module.hpp). The executor
// and the transports pass them on unopened.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace penstock {

/// The base of whatever a family of stage modules sends between its stages.
class PayloadContent {
 public:
  PayloadContent() = default;
  PayloadContent(const PayloadContent&) = delete;
  PayloadContent& operator=(const PayloadContent&) = delete;
  virtual ~PayloadContent() = default;
};

/// One message's content, owned by whoever holds it; null where only time is moved.
using Payload = std::unique_ptr<PayloadContent>;
/// What one member gives to a collective; all members read it.
using SharedPayload = std::shared_ptr<const PayloadContent>;

/// The bytes of payloads on their way between processes; belongs to the family of stage modules. Null
/// payloads are not shown to it. Calls come from the rank's one worker thread; a failure is an exception.
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
