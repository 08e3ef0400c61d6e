#pragma once
// The layouts of the tensors in messages, agreed by all ranks before the first step.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/device_codec.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/executor/payload.hpp"
#include "backend/nccl/rendezvous.hpp"
#include "schedules/check/flat_program.hpp"

namespace penstock {

/// A layout; absent for null payloads.
using AgreedLayout = std::optional<DeviceLayout>;

/// The layouts that this rank knows. A flow is the messages between two stages on two ranks, or what one rank
/// contributes to a stage's sums or gathers. Each flow has one layout, which its sender publishes in the
/// ranks' store.
class Layouts {
 public:
  /// Keeps references to all arguments, which must outlive this object. `codec` is null if all payloads are
  /// null.
  Layouts(const FlatProgram& flat, std::int32_t rank, Rendezvous& store, const DeviceCodec* codec)
      : flat_(flat), rank_(rank), store_(store), codec_(codec) {}

  /// Publishes the layout of what this rank sends or contributes. Throws std::runtime_error if the flow had
  /// another layout before.
  void tell(std::int32_t message, const PayloadContent* content, const WaitLimits& limits);
  /// Returns the layout that the sender of a transfer has published. Waits for it; throws what
  /// Rendezvous::get() throws.
  const AgreedLayout& hear(std::int32_t message, const WaitLimits& limits);
  /// Returns the layouts of a collective's members, by ascending rank. Waits and throws like hear().
  std::vector<AgreedLayout> hear_members(std::int32_t message, const WaitLimits& limits);

  /// Return layouts that are already known. Throw std::logic_error if one is not.
  const AgreedLayout& of(std::int32_t message) const;
  std::vector<AgreedLayout> of_members(std::int32_t message) const;
  /// Returns the layout of a sum: that of a member that contributes something. A member without a microbatch
  /// contributes nothing.
  AgreedLayout of_sum(std::int32_t message) const;

 private:
  std::string flow_of(std::int32_t message, std::int32_t rank) const;
  std::vector<std::int32_t> members_of(std::int32_t message) const;
  const AgreedLayout& heard(const std::string& flow, std::int32_t from, const WaitLimits& limits);
  const AgreedLayout& known(const std::string& flow) const;

  const FlatProgram& flat_;
  std::int32_t rank_;
  Rendezvous& store_;
  const DeviceCodec* codec_;
  std::map<std::string, AgreedLayout> by_flow_;
};

}  // namespace penstock
