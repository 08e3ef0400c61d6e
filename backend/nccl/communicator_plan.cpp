// Plans the communicators of a program. NCCL matches the operations of one communicator in the order of the
// calls. The directed channel model has one queue for each ordered pair of ranks, so each ordered pair gets
// its own communicator. Each set of ranks with collectives also gets one. All members must open a
// communicator at the same time. All ranks therefore open their communicators in the same order: by first
// use, and then by rank.

#include "backend/nccl/communicator_plan.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "schedules/check/flat_program.hpp"

namespace penstock {
namespace {

/// The place where a communicator is first used: the position in the list of the sender or first member, and
/// that rank.
using FirstUse = std::pair<std::int32_t, std::int32_t>;  // (position in the rank's list, rank)

FirstUse use_of(const FlatProgram& flat, const FlatMessage& message) {
  const std::int32_t rank = flat.rank_of(message.first);
  return {message.first - flat.rank_begin[static_cast<std::size_t>(rank)], rank};
}

}  // namespace

CommunicatorPlan communicator_of(const FlatProgram& flat, const FlatMessage& message) {
  if (message.recv != kNone) return {CommunicatorKind::edge, {message.from_rank, message.to_rank}};
  CommunicatorPlan plan{CommunicatorKind::group, {}};
  for (std::int32_t m = message.first; m != kNone; m = flat.next_member[static_cast<std::size_t>(m)]) {
    plan.ranks.push_back(flat.rank_of(m));
  }
  std::ranges::sort(plan.ranks);
  return plan;
}

std::vector<CommunicatorPlan> communicators_of(const FlatProgram& flat) {
  std::map<CommunicatorPlan, FirstUse> first_uses;
  for (const FlatMessage& message : flat.messages) {
    const auto [known, is_new] = first_uses.emplace(communicator_of(flat, message), use_of(flat, message));
    // Messages are numbered rank by rank, so a message with a higher number may be used earlier.
    if (!is_new) known->second = std::min(known->second, use_of(flat, message));
  }
  std::vector<std::pair<FirstUse, CommunicatorPlan>> ordered;
  ordered.reserve(first_uses.size());
  for (const auto& [plan, use] : first_uses) ordered.emplace_back(use, plan);
  std::ranges::sort(ordered);
  std::vector<CommunicatorPlan> plans;
  plans.reserve(ordered.size());
  for (auto& [use, plan] : ordered) plans.push_back(std::move(plan));
  return plans;
}

std::string to_text(const CommunicatorPlan& plan) {
  if (plan.kind == CommunicatorKind::edge) {
    return std::to_string(plan.ranks.front()) + " -> " + std::to_string(plan.ranks.back());
  }
  std::string text = "{";
  for (const std::int32_t rank : plan.ranks) text += (text.size() > 1 ? ", " : "") + std::to_string(rank);
  return text + "}";
}

}  // namespace penstock
