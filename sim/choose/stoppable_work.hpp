#pragma once
// A function that runs work on another thread. The caller can stop waiting before the work ends.

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

namespace penstock {

/// Runs `work` and returns its result. Returns nothing if `stopped` returns true and the work does not end
/// soon afterwards. The work then continues on its own thread, so it must own all its data. Throws the
/// exceptions of `work`. If `stopped` is empty, `work` runs on the calling thread.
template <typename Work>
std::optional<std::invoke_result_t<Work>> done_unless(const std::function<bool()>& stopped, Work work) {
  constexpr std::chrono::milliseconds kLook{20};
  // The time for which the function still waits after a stop. If the work checks `stopped` itself, it usually
  // ends within this time, and its result is used.
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
