#pragma once
// What messages carry: tensors of a kind that only the stage modules know (stage_module.hpp). The executor
// and the transports pass them on unopened.

#include <memory>

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

}  // namespace penstock
