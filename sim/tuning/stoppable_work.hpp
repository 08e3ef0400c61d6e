#pragma once
// Work that nobody waits for once a search is stopped.

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

namespace penstock {

/// What `work` returns; nothing where `stopped` became true and the work does not end soon after. It then
/// goes on by itself, so it must own all that it uses. What it throws is thrown here. Without a question it
/// just runs.
template <typename Work>
std::optional<std::invoke_result_t<Work>> done_unless(const std::function<bool()>& stopped, Work work) {
  constexpr std::chrono::milliseconds kLook{20};
  // What asks `stopped` itself ends within this, and its result is worth having.
  constexpr std::chrono::milliseconds kPatience{150};
  if (!stopped) return work();
  std::packaged_task<std::invoke_result_t<Work>()> task(std::move(work));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  while (result.wait_for(kLook) != std::future_status::ready) {
    if (stopped() && result.wait_for(kPatience) != std::future_status::ready) return std::nullopt;
  }
  return result.get();
}

}  // namespace penstock
