#pragma once
// How the tensors of messages lie, agreed on by all ranks before the first step.

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

/// Nothing: null payloads.
using AgreedLayout = std::optional<DeviceLayout>;

/// Messages between two stages on two ranks are alike, and so is what a rank brings to a stage's sums or
/// gathers: each such flow has one layout, which its sender tells in the ranks' store.
class Layouts {
 public:
  /// References outlive it. `codec`: null where all payloads are null.
  Layouts(const FlatProgram& flat, std::int32_t rank, Rendezvous& store, const DeviceCodec* codec)
      : flat_(flat), rank_(rank), store_(store), codec_(codec) {}

  /// What this rank sends, or brings to a collective. Throws std::runtime_error when the flow had another.
  void tell(std::int32_t message, const PayloadContent* content, const WaitLimits& limits);
  /// Of a transfer: its sender's. Waits until that has been told; throws what Rendezvous::get() throws.
  const AgreedLayout& hear(std::int32_t message, const WaitLimits& limits);
  /// Of a collective, by member in ascending order of ranks; as above.
  std::vector<AgreedLayout> hear_members(std::int32_t message, const WaitLimits& limits);

  /// What has been told or heard. Throws std::logic_error when nothing has been.
  const AgreedLayout& of(std::int32_t message) const;
  std::vector<AgreedLayout> of_members(std::int32_t message) const;
  /// Of a sum: that of a member that brings something; one that has had no microbatch brings none.
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
