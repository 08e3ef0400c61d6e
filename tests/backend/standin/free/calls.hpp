#pragma once
// What every call of the free form begins with, and what a test may have happen there to the rank that makes
// it.

#include <cstdint>
#include <string>

namespace standin {

/// Befalls a process at one of its calls.
struct Mishap {
  enum class Kind : std::uint8_t { none, killed, stopped, fails };
  Kind kind = Kind::none;
  int device = 0;      ///< that is current in the calling thread: of forked ranks it is the rank
  std::string call{};  ///< "ncclSend"; empty: any but questions, which are asked again and again
  int nth = 1;         ///< of those calls
};
/// To be set before the ranks are forked.
void set_mishap(const Mishap& mishap);

/// True: the call fails and has no effect.
bool begin_call(const char* name);

/// Of the calling thread.
int current_device();
void make_current(int device);

/// PENSTOCK_STANDIN_DEVICES, 8 unless it is set.
int device_count();

}  // namespace standin
