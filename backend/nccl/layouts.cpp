// Publishes the layouts of tensors. Each flow's layout is published once, under a key that names the flow,
// and is cached for all runs. Example: with two stages on ranks 0 and 1, and a replica of stage 1 on rank 2,
// the store has these keys:
//
//     layout/activations of stage 0 for stage 1, rank 0 to rank 1     6:4,8      one tensor of 4 x 8 floats
//     layout/gradients of stage 1, rank 2                             6:8,8;6:8

#include "backend/nccl/layouts.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/cuda/device_codec.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/executor/payload.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"

namespace penstock {
namespace {

// The text that is published for a null payload. The text of a layout has no letters, so the two differ.
constexpr const char* kNull = "null";

}  // namespace

std::string Layouts::flow_of(std::int32_t message, std::int32_t rank) const {
  const FlatMessage& flat = flat_.messages[index(message)];
  const Action& action = flat_.actions[index(flat.first)];
  if (flat.recv == kNone) {
    return fmt::format("{} of stage {}, rank {}",
                       action.kind == ActionKind::unshard ? "weights" : "gradients", action.stage, rank);
  }
  const StageMessage moved = message_of(action);
  return fmt::format("{} of stage {} for stage {}, rank {} to rank {}",
                     moved.flow == Flow::gradient ? "gradients" : "activations", moved.from, moved.to,
                     flat.from_rank, flat.to_rank);
}

std::vector<std::int32_t> Layouts::members_of(std::int32_t message) const {
  std::vector<std::int32_t> ranks;
  for (std::int32_t m = flat_.messages[index(message)].first; m != kNone; m = flat_.next_member[index(m)])
    ranks.push_back(flat_.rank_of(m));
  std::ranges::sort(ranks);
  return ranks;
}

void Layouts::tell(std::int32_t message, const PayloadContent* content, const WaitLimits& limits) {
  if (codec_ == nullptr) {
    if (content == nullptr) return;
    throw std::logic_error("the modules send tensors, but nothing can pack them");
  }
  AgreedLayout layout;
  if (content != nullptr) layout = codec_->layout_of(*content);
  const std::string flow = flow_of(message, rank_);
  // The first message of a flow determines the layout of all its messages.
  const auto [known, is_new] = by_flow_.emplace(flow, layout);
  if (is_new) {
    store_.set("layout/" + flow, layout ? layout->text : kNull, limits);
  } else if (known->second != layout) {
    throw std::runtime_error(fmt::format(
        "messages of {} differ in their tensors' types or sizes, which the nccl transport does not do",
        flow));
  }
}

const AgreedLayout& Layouts::heard(const std::string& flow, std::int32_t from, const WaitLimits& limits) {
  if (const auto known = by_flow_.find(flow); known != by_flow_.end()) return known->second;
  AgreedLayout layout;
  if (codec_ != nullptr) {
    const std::string told =
        store_.get("layout/" + flow, limits, fmt::format("rank {}: how {} lie", from, flow));
    if (told != kNull) layout = codec_->layout_of_text(told);
  }
  return by_flow_.emplace(flow, std::move(layout)).first->second;
}

const AgreedLayout& Layouts::known(const std::string& flow) const {
  // Without a codec, all payloads are null, so there are no layouts.
  static const AgreedLayout null;
  if (codec_ == nullptr) return null;
  const auto found = by_flow_.find(flow);
  if (found == by_flow_.end()) throw std::logic_error("no layout is known for " + flow);
  return found->second;
}

const AgreedLayout& Layouts::hear(std::int32_t message, const WaitLimits& limits) {
  const std::int32_t from = flat_.messages[index(message)].from_rank;
  return heard(flow_of(message, from), from, limits);
}

std::vector<AgreedLayout> Layouts::hear_members(std::int32_t message, const WaitLimits& limits) {
  std::vector<AgreedLayout> layouts;
  for (const std::int32_t rank : members_of(message))
    layouts.push_back(heard(flow_of(message, rank), rank, limits));
  return layouts;
}

const AgreedLayout& Layouts::of(std::int32_t message) const {
  return known(flow_of(message, flat_.messages[index(message)].from_rank));
}

std::vector<AgreedLayout> Layouts::of_members(std::int32_t message) const {
  std::vector<AgreedLayout> layouts;
  for (const std::int32_t rank : members_of(message)) layouts.push_back(known(flow_of(message, rank)));
  return layouts;
}

AgreedLayout Layouts::of_sum(std::int32_t message) const {
  for (const AgreedLayout& layout : of_members(message)) {
    if (layout && layout->bytes > 0) return layout;
  }
  return std::nullopt;
}

}  // namespace penstock
