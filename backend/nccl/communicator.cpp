// NCCL's calls may block for ever when a peer is gone. So communicators are opened with `blocking = 0`: each
// call may answer "in progress", which is asked again every 20 us, with a stop and a deadline, and what fails
// is aborted, which frees the peers, too. What NCCL says last goes into the message.

#include "backend/nccl/communicator.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nccl.h>

#include "backend/cuda/stream.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/communicator_plan.hpp"
#include "backend/nccl/first_word.hpp"

namespace penstock {
namespace {

constexpr std::chrono::microseconds kBetweenLooks(20);

/// NCCL has sentences for its results and no names, by which people search.
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

/// What NCCL said, with its last words where it has any.
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
                           const WaitLimits& limits)
    : plan_(std::move(plan)), rank_(rank), own_number_(number_of(rank)), limits_(limits) {
  ncclUniqueId id{};
  if (unique_id.size() != sizeof(id.internal)) throw std::logic_error("not a unique id of NCCL");
  std::memcpy(id.internal, unique_id.data(), unique_id.size());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t result =
      ncclCommInitRankConfig(&handle_, static_cast<int>(plan_.ranks.size()), id, own_number_, &config);
  try {
    settle(result, "ncclCommInitRankConfig", limits);
  } catch (...) {
    if (handle_ != nullptr) static_cast<void>(ncclCommAbort(handle_));
    throw;
  }
}

Communicator::~Communicator() { abort(); }

void Communicator::abort() {
  if (handle_ != nullptr) static_cast<void>(ncclCommAbort(std::exchange(handle_, nullptr)));
}

AbortTogether::AbortTogether() { static_cast<void>(ncclGroupStart()); }
AbortTogether::~AbortTogether() { static_cast<void>(ncclGroupEnd()); }

int Communicator::number_of(std::int32_t rank) const {
  return static_cast<int>(std::ranges::find(plan_.ranks, rank) - plan_.ranks.begin());
}

void Communicator::settle(ncclResult_t result, std::string_view call, const WaitLimits& limits) const {
  const auto begin = std::chrono::steady_clock::now();
  // Each look first asks whether the run has been stopped: a peer that is gone never answers.
  while (result == ncclInProgress) {
    if (limits.stopped && limits.stopped()) throw Stopped{};
    if (std::chrono::steady_clock::now() - begin > limits.deadline) {
      throw std::runtime_error(fmt::format("{}: {} did not end within {:g} s", name(), call,
                                           std::chrono::duration<double>(limits.deadline).count()));
    }
    std::this_thread::sleep_for(kBetweenLooks);
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
  settle(ncclCommFinalize(handle_), "ncclCommFinalize", limits);
  const ncclComm_t closed = std::exchange(handle_, nullptr);
  const ncclResult_t result = ncclCommDestroy(closed);
  if (result != ncclSuccess) fail(result, "ncclCommDestroy");
}

/// Whose peer is gone is not who failed.
void Communicator::fail(ncclResult_t result, std::string_view call) const {
  if (result == ncclRemoteError) let_others_speak(limits_);
  throw NcclError(fmt::format("{}: {}", name(), in_words(result, call, handle_)), result);
}

std::string Communicator::name() const {
  std::vector<std::int32_t> others = plan_.ranks;
  std::erase(others, rank_);
  return fmt::format("communicator {} (rank {}, with {} {})", to_text(plan_), rank_,
                     others.size() == 1 ? "rank" : "ranks", fmt::join(others, ", "));
}

}  // namespace penstock
