// What becomes of a launch in virtual time: an operation of its stream. A kernel's thread has a clock of its
// own, from which the operation's time follows: a look at it takes a while, a nap as long as asked. Bytes
// take time, too.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/backend/standin/kernel_launch.hpp"
#include "tests/backend/standin/runtime_call.hpp"
#include "tests/backend/standin/world.hpp"

namespace standin {
namespace {

constexpr std::uint64_t kReading = 400;  // ns that a look at the clock takes
constexpr Ns kShortest = 1'000;          // a kernel that does nothing
constexpr double kNsPerByte = 0.004;

class VirtualHere : public Here {
 public:
  VirtualHere(const Stream& stream, unsigned block, unsigned blocks)
      : Here(static_cast<std::uint32_t>(stream.sms[block % stream.sms.size()]), block, blocks),
        begin_(device_moment(stream.device, static_cast<std::uint64_t>(world().scheduler.now()))),
        time_(begin_) {}
  std::uint64_t now() override { return time_ += kReading; }
  void nap(unsigned ns) override { time_ += ns; }
  Ns taken() const { return static_cast<Ns>(time_ - begin_); }

 private:
  std::uint64_t begin_;
  std::uint64_t time_;
};

bool is(const Launch& launch, std::string_view kernel) {
  return std::string_view(launch.kernel->name).starts_with(kernel);
}

/// A large copy that would change nothing is not made again.
bool changes_nothing(const Launch& launch, const std::vector<Access>& touched) {
  return is(launch, "copy(") &&
         world().memory.already_holds(touched[1].begin, touched[0].begin, touched[0].bytes);
}

/// How long its longest block takes.
Ns run(const Launch& launch, const std::vector<Access>& touched, const Stream& stream) {
  Ns longest = kShortest;
  double bytes = 0;
  for (const Access& access : touched) bytes += static_cast<double>(access.bytes);
  longest = std::max(longest, static_cast<Ns>(bytes * kNsPerByte));
  if (changes_nothing(launch, touched)) return longest;
  for (unsigned block = 0; block < launch.blocks; ++block) {
    VirtualHere here(stream, block, launch.blocks);
    launch.kernel->run(here, launch);
    longest = std::max(longest, here.taken());
  }
  return longest;
}

}  // namespace

cudaError_t launch(const Launch& asked, cudaStream_t handle) {
  if (const cudaError_t error = enter("cudaLaunchKernel"); error != cudaSuccess) return error;
  if (world().has_mutant("launches fail in silence") && world().scheduler.random(50) == 0) return cudaSuccess;
  Stream& stream = *stream_of(handle);
  if (stream.device != this_thread->device) {
    world().defect("a kernel launched on a stream of a device that is not current");
    return failed(cudaErrorInvalidResourceHandle);
  }
  Launch given = asked;
  if (is(given, "hold_since(") && world().has_mutant("links take no time")) given.arguments[1] = 0;
  if (is(given, "hold(") && world().has_mutant("holds end at once")) given.arguments[0] = 0;
  auto operation = std::make_unique<Operation>();
  operation->name = given.kernel->name;
  operation->accesses = given.kernel->accesses(given);
  operation->run = [given, touched = operation->accesses, &stream] { return run(given, touched, stream); };
  world().devices.give(stream, std::move(operation));
  return cudaSuccess;
}

void no_host_form(const std::string& kernel) { world().hang(("no host form of kernel " + kernel).c_str()); }

}  // namespace standin
