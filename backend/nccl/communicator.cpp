// Wraps NCCL's calls so that they never block forever. A call may block if a peer has ended, so
// communicators are opened with `blocking = 0`. A call may then return "in progress". The code asks NCCL
// for the state every 20 us until a stop or a deadline. If a communicator fails, it is aborted, which also
// ends the wait of its peers. NCCL's last error text becomes part of the message. Tests:
// tests/backend/standin.

#include "backend/nccl/session.hpp"

#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/cuda/stream.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/failure_report.hpp"
#include "schedules/check/flat_program.hpp"

namespace penstock {

namespace {

constexpr std::chrono::microseconds kBetweenLooks(20);
constexpr std::chrono::microseconds kBetweenLooksAtOpening(1000);  // opening takes tenths of a second

/// Returns the name of an NCCL result code, such as users search for. NCCL has no function for this. It
/// provides only descriptions of the codes.
std::string_view name_of(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "ncclSuccess";
    case ncclUnhandledCudaError:
      return "ncclUnhandledCudaError";
    case ncclSystemError:
      return "ncclSystemError";
    case ncclInternalError:
      return "ncclInternalError";
    case ncclInvalidArgument:
      return "ncclInvalidArgument";
    case ncclInvalidUsage:
      return "ncclInvalidUsage";
    case ncclRemoteError:
      return "ncclRemoteError";
    case ncclInProgress:
      return "ncclInProgress";
    case ncclNumResults:
      break;
  }
  return "an unknown result";
}

/// Returns an error text for the call `call`: NCCL's description of `result`, followed by the last error of
/// the communicator if there is one.
std::string in_words(ncclResult_t result, std::string_view call, ncclComm_t communicator) {
  std::string text = fmt::format("{}: {} ({}): {}", call, name_of(result), static_cast<int>(result),
                                 ncclGetErrorString(result));
  std::string last = ncclGetLastError(communicator);
  while (!last.empty() && last.back() == '\n') last.pop_back();
  std::ranges::replace(last, '\n', ' ');
  if (!last.empty()) text += fmt::format("; {}", last);
  return text;
}

}  // namespace

std::string new_unique_id() {
  ncclUniqueId id{};
  const ncclResult_t result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) throw NcclError(in_words(result, "ncclGetUniqueId", nullptr), result);
  return {id.internal, sizeof(id.internal)};
}

Communicator::Communicator(CommunicatorPlan plan, std::int32_t rank, const std::string& unique_id,
                           const WaitLimits& limits, std::int32_t max_ctas)
    : plan_(std::move(plan)), rank_(rank), own_number_(number_of(rank)), limits_(limits) {
  ncclUniqueId id{};
  if (unique_id.size() != sizeof(id.internal)) throw std::logic_error("not a unique id of NCCL");
  std::memcpy(id.internal, unique_id.data(), unique_id.size());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  // This setting limits the number of SMs that NCCL's kernels hold. Without launch order, receives hold SMs
  // while they wait for their peers, and the rank's own work needs SMs too (most_resident_ctas()).
  config.maxCTAs = max_ctas;
  const ncclResult_t result =
      ncclCommInitRankConfig(&handle_, static_cast<int>(plan_.ranks.size()), id, own_number_, &config);
  if (result != ncclSuccess && result != ncclInProgress) fail(result, "ncclCommInitRankConfig");
}

/// Waits until the communicator is open. Asks for its state even if the constructor's call returned success,
/// because a group begins its calls only at its end.
void Communicator::wait_until_open() const {
  wait_for_result(ncclInProgress, "ncclCommInitRankConfig", limits_, kBetweenLooksAtOpening);
}

Communicator::~Communicator() { abort(); }

void Communicator::abort() {
  if (handle_ != nullptr) static_cast<void>(ncclCommAbort(std::exchange(handle_, nullptr)));
}

GroupOfCalls::GroupOfCalls() { static_cast<void>(ncclGroupStart()); }
// Each communicator has its own state, which says more than the result of the group.
GroupOfCalls::~GroupOfCalls() { static_cast<void>(ncclGroupEnd()); }

int Communicator::number_of(std::int32_t rank) const {
  return static_cast<int>(std::ranges::find(plan_.ranks, rank) - plan_.ranks.begin());
}

void Communicator::complete(ncclResult_t result, std::string_view call, const WaitLimits& limits) const {
  wait_for_result(result, call, limits, kBetweenLooks);
}

void Communicator::wait_for_result(ncclResult_t result, std::string_view call, const WaitLimits& limits,
                                   std::chrono::microseconds pause) const {
  const auto begin = std::chrono::steady_clock::now();
  // The loop checks for a stop and a deadline, because a peer that has ended never answers.
  while (result == ncclInProgress) {
    if (limits.stopped && limits.stopped()) throw Stopped{};
    if (std::chrono::steady_clock::now() - begin > limits.deadline) {
      throw std::runtime_error(fmt::format("{}: {} did not end within {:g} s", name(), call,
                                           std::chrono::duration<double>(limits.deadline).count()));
    }
    std::this_thread::sleep_for(pause);
    const ncclResult_t asked = ncclCommGetAsyncError(handle_, &result);
    if (asked != ncclSuccess) fail(asked, "ncclCommGetAsyncError");
  }
  if (result != ncclSuccess) fail(result, call);
}

void Communicator::check() const {
  ncclResult_t result = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(handle_, &result);
  if (asked != ncclSuccess) fail(asked, "ncclCommGetAsyncError");
  if (result != ncclSuccess && result != ncclInProgress) fail(result, "in flight");
}

void Communicator::close(const WaitLimits& limits) {
  complete(ncclCommFinalize(handle_), "ncclCommFinalize", limits);
  const ncclComm_t closed = std::exchange(handle_, nullptr);
  const ncclResult_t result = ncclCommDestroy(closed);
  if (result != ncclSuccess) fail(result, "ncclCommDestroy");
}

/// Throws the error with which the NCCL call `call` ended. If this rank has only lost a peer, it first
/// waits, so that the failed rank can report the cause.
void Communicator::fail(ncclResult_t result, std::string_view call) const {
  if (result == ncclRemoteError) wait_for_failure_report(limits_);
  throw NcclError(fmt::format("{}: {}", name(), in_words(result, call, handle_)), result);
}

std::string Communicator::name() const {
  std::vector<std::int32_t> others = plan_.ranks;
  std::erase(others, rank_);
  return fmt::format("communicator {} (rank {}, with {} {})", to_text(plan_), rank_,
                     others.size() == 1 ? "rank" : "ranks", fmt::join(others, ", "));
}

// Plans the communicators of a program. NCCL matches the operations of one communicator in the order of the
// calls. The directed channel model has one queue for each ordered pair of ranks, so each ordered pair has
// its own communicator. Each set of ranks with collectives also has a communicator. All members of a
// communicator must open it at the same time. So all ranks open their communicators in the same order: by
// first use, and then by rank.

namespace {

/// The first use of a communicator by its sender or first member. It is the position in the action list of
/// this rank, and the rank's number.
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

std::int32_t most_resident_ctas(const FlatProgram& flat, std::int32_t ranks_per_gpu) {
  std::map<std::int32_t, std::int32_t> communicators;  // number of communicators on each GPU
  for (const CommunicatorPlan& plan : communicators_of(flat)) {
    for (const std::int32_t rank : plan.ranks) ++communicators[rank / ranks_per_gpu];
  }
  std::int32_t most = 0;
  for (const auto& [gpu, count] : communicators) most = std::max(most, count * most_ctas(ranks_per_gpu));
  return most;
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
