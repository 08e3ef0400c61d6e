#pragma once
// Streams, events, and the operations that run on them in virtual time.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tests/backend/standin/memory.hpp"
#include "tests/backend/standin/scheduler.hpp"
#include "tests/backend/standin/vector_clock.hpp"

namespace standin {

/// The result of one cudaEventRecord call.
struct Record {
  bool passed = false;
  VectorClock clock;  ///< the clock of the stream when the record passed
};

struct Event {
  int device = 0;
  std::shared_ptr<Record> last{};  ///< the last record; null if the event was never recorded
  std::shared_ptr<Record> before_last{};
  bool hides_pending = false;  ///< true if the event was recorded again before its last record had passed
  bool destroyed = false;
};

struct Operation {
  const char* name = "";
  std::vector<Access> accesses{};
  /// An additional condition to start, beside the order of streams and queues; empty if there is none.
  std::function<bool()> may_start{};
  /// A condition to run after the start, such as that all peers have started; empty if there is none.
  std::function<bool()> may_run{};
  std::function<void()> started{};
  std::function<Ns()> run{};  ///< does the operation's work and returns its duration
  std::function<void()> ended{};
  std::shared_ptr<Record> waits_for{};

  std::uint64_t number = 0;
  std::size_t given_by = 0;  ///< the slot of the host thread that enqueued the operation
  VectorClock given;
  bool has_started = false;
  bool is_running = false;
};

struct Stream {
  std::size_t slot = 0;  ///< the slot of the stream's clock, which is also its name in reports
  int device = 0;
  int process = 0;  ///< number of its process among those that share the device
  std::vector<int> sms;
  std::size_t connection = 0;  ///< the number of the hardware queue
  std::deque<std::unique_ptr<Operation>> queue;
  VectorClock clock;
  std::uint64_t given = 0;  ///< the number of operations enqueued so far
  std::uint64_t ended = 0;
  bool destroyed = false;
  bool has_high_priority = false;
  std::unique_ptr<Operation> behind_next_stamp{};  ///< operation that a mutant moves behind the next stamp
  bool is_default = false;  ///< true for the default stream of a thread, which is never destroyed
};

class Devices {
 public:
  Stream* new_stream(int device, std::vector<int> sms);
  /// Returns cudaStreamPerThread of the running thread.
  Stream* default_stream(int device);
  Event* new_event(int device);

  /// Enqueues the operation. If the stream's launch queue is full, first waits, which nothing can interrupt.
  void give(Stream& stream, std::unique_ptr<Operation> operation);
  /// Starts and runs all operations that can start or run. It is called whenever no host thread runs.
  void start_what_can();

  bool is_idle(int device) const;
  /// Waits until all operations that are now enqueued on the device have ended.
  void wait_for_device(int device, const char* why);
  /// Returns true if a started operation of the device waits for a peer.
  bool waits_for_peer(int device, int process) const;
  /// Returns true if another stream of the device runs an operation of this name.
  bool runs_beside(const Stream& stream, std::string_view name) const;
  std::vector<Stream*> streams_of(int device, int process) const;
  std::uint64_t ended() const { return ended_; }

  /// Returns a text with the first operation of each stream, for the report of a hang.
  std::string heads() const;
  void report_leaks() const;

  std::set<std::pair<int, int>> peers;  ///< the devices that may access another one's memory, and that one
  std::map<int, int> errors;            ///< the errors of failed devices; every later call returns the error

 private:
  bool may_start(const Stream& stream, const Operation& operation) const;
  bool start(Stream& stream);
  bool run(Stream& stream);
  void check_reach(const Stream& stream, const Operation& operation) const;
  void end(Stream& stream);

  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Event>> events_;
  std::map<std::pair<std::size_t, int>, Stream*> defaults_;  // by thread and device
  std::map<std::tuple<int, int, std::size_t>, std::deque<std::uint64_t>>
      connections_;  // operations that have not started, by device, process and hardware queue
  std::uint64_t numbers_ = 0;
  std::uint64_t ended_ = 0;
  bool busy_ = false;
};

}  // namespace standin
