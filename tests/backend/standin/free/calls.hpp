#pragma once
// The code at the beginning of every call in the free form. At this point, a test can let the calling rank
// fail.

#include <cstdint>
#include <string>

namespace standin {

/// A failure of a process at one of its calls.
struct Mishap {
  enum class Kind : std::uint8_t { none, killed, stopped, fails };
  Kind kind = Kind::none;
  int device = 0;      ///< the current device of the calling thread, which is the rank in forked ranks
  std::string call{};  ///< the name of the call, such as "ncclSend"; empty for any call except polls
  int nth = 1;         ///< the number of the call among these calls, from 1
};
/// Sets the mishap. Must be called before the ranks are forked.
void set_mishap(const Mishap& mishap);

/// Begins a call. Returns true if the call must fail and have no effect.
bool begin_call(const char* name);

/// Returns the current device of the calling thread.
int current_device();
void make_current(int device);

/// Returns the number that a visible device has on its host.
int number_on_host(int device);
/// Returns the number of devices that CUDA_VISIBLE_DEVICES lists. If this variable is not set, returns
/// PENSTOCK_STANDIN_DEVICES, or 8 if that is not set either.
int device_count();

}  // namespace standin
