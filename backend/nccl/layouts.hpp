#pragma once
// The layouts of the tensors in messages. The ranks exchange them before the first step.

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

/// The layout of a payload, or nothing if the payload is null.
using AgreedLayout = std::optional<DeviceLayout>;

/// The layouts that this rank knows. A flow is all messages between two stages on two ranks, or all
/// contributions of one rank to a stage's sums or gathers. All payloads of a flow have one layout. Its sender
/// publishes the layout in the store that the ranks share.
class Layouts {
 public:
  /// Stores references to all arguments, which must outlive this object. `codec` is null if all payloads are
  /// null.
  Layouts(const FlatProgram& flat, std::int32_t rank, Rendezvous& store, const DeviceCodec* codec)
      : flat_(flat), rank_(rank), store_(store), codec_(codec) {}

  /// Publishes the layout of `content`, which this rank sends or contributes. Throws std::runtime_error if
  /// the flow already has a different layout.
  void tell(std::int32_t message, const PayloadContent* content, const WaitLimits& limits);
  /// Waits until the sender of a transfer has published its layout, and returns it. Throws what
  /// Rendezvous::get() throws.
  const AgreedLayout& hear(std::int32_t message, const WaitLimits& limits);
  /// Waits for the layouts of a collective's members, and returns them in ascending order of ranks. Throws
  /// like hear().
  std::vector<AgreedLayout> hear_members(std::int32_t message, const WaitLimits& limits);

  /// of() and of_members() return layouts that are already known. They throw std::logic_error if a layout is
  /// not known.
  const AgreedLayout& of(std::int32_t message) const;
  std::vector<AgreedLayout> of_members(std::int32_t message) const;
  /// Returns the layout of a REDUCE_GRAD. It is the layout of any member that contributes a gradient. A
  /// member that ran no microbatch contributes none.
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
