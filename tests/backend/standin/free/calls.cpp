// Ranks are processes here. A process with a mishap kills or stops itself at its n-th call. Forked ranks
// inherit the mishap that was set before the fork.

#include "tests/backend/standin/free/calls.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/backend/standin/device_facts.hpp"

namespace standin {
namespace {

constexpr int kUsualDevices = 8;

const bool first_line_said = std::fprintf(stderr, "%s\n", kFirstLine) > 0;

Mishap set;
std::atomic<int> counted = 0;

thread_local int device_of_thread = 0;

}  // namespace

void set_mishap(const Mishap& mishap) {
  set = mishap;
  counted = 0;
}

bool begin_call(const char* name) {
  if (set.kind == Mishap::Kind::none || set.device != device_of_thread) return false;
  if (!set.call.empty() && set.call != name) return false;
  if (++counted != set.nth) return false;
  if (set.kind == Mishap::Kind::fails) return true;
  kill(getpid(), set.kind == Mishap::Kind::killed ? SIGKILL : SIGSTOP);
  return false;
}

int current_device() { return device_of_thread; }
void make_current(int device) { device_of_thread = device; }

namespace {

/// Returns the numbers in CUDA_VISIBLE_DEVICES, or nothing if it is not set.
std::optional<std::vector<int>> visible_devices() {
  const char* said = std::getenv("CUDA_VISIBLE_DEVICES");
  if (said == nullptr) return std::nullopt;
  std::vector<int> numbers;
  std::istringstream text(said);
  for (std::string number; std::getline(text, number, ',');) numbers.push_back(std::atoi(number.c_str()));
  return numbers;
}

}  // namespace

int number_on_host(int device) {
  const auto visible = visible_devices();
  return visible ? visible->at(static_cast<std::size_t>(device)) : device;
}

int device_count() {
  if (const auto visible = visible_devices()) return static_cast<int>(visible->size());
  const char* asked = std::getenv("PENSTOCK_STANDIN_DEVICES");
  return asked == nullptr ? kUsualDevices : std::atoi(asked);
}

bool breaks_on_purpose(const char*) { return false; }

}  // namespace standin
