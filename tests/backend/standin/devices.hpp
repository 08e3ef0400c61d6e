#pragma once
// Streams, events, and the operations that run on them in virtual time.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/backend/standin/memory.hpp"
#include "tests/backend/standin/scheduler.hpp"
#include "tests/backend/standin/vector_clock.hpp"

namespace standin {

/// One cudaEventRecord.
struct Record {
  bool passed = false;
  VectorClock clock;  ///< of the stream, when it passed
};

struct Event {
  int device = 0;
  std::shared_ptr<Record> last{};  ///< null: never recorded
  std::shared_ptr<Record> before_last{};
  bool hides_pending = false;  ///< recorded again before its last record had passed
  bool destroyed = false;
};

struct Operation {
  const char* name = "";
  std::vector<Access> accesses{};
  std::function<bool()> may_start{};  ///< beside the order of streams and connections; empty: at once
  std::function<bool()> may_run{};    ///< when it has started: its peers have, too; empty: at once
  std::function<void()> started{};
  std::function<Ns()> run{};  ///< does its work; how long it takes
  std::function<void()> ended{};
  std::shared_ptr<Record> waits_for{};

  std::uint64_t number = 0;
  std::size_t given_by = 0;  ///< slot of the host thread
  VectorClock given;
  bool has_started = false;
  bool is_running = false;
};

struct Stream {
  std::size_t slot = 0;  ///< of its clock, and its name in reports
  int device = 0;
  int process = 0;  ///< number of its process among those that share the device
  std::vector<int> sms;
  std::size_t connection = 0;  ///< hardware queue
  std::deque<std::unique_ptr<Operation>> queue;
  VectorClock clock;
  std::uint64_t given = 0;  ///< operations so far
  std::uint64_t ended = 0;
  bool destroyed = false;
  bool is_default = false;  ///< of a thread: nobody destroys it
};

class Devices {
 public:
  Stream* new_stream(int device, std::vector<int> sms);
  /// cudaStreamPerThread of the running thread.
  Stream* default_stream(int device);
  Event* new_event(int device);

  void give(Stream& stream, std::unique_ptr<Operation> operation);
  /// Lets operations start and run that can. Called whenever no thread runs.
  void start_what_can();

  bool is_idle(int device) const;
  /// Until all that the device has been given so far has ended, or `limit` holds.
  void wait_for_device(int device, const char* why);
  /// Some started operation of the device waits for a peer.
  bool waits_for_peer(int device, int process) const;
  std::vector<Stream*> streams_of(int device, int process) const;
  std::uint64_t ended() const { return ended_; }

  /// Each stream's head, for a hang.
  std::string heads() const;
  void report_leaks() const;

  std::map<int, int> errors;  ///< of devices that have failed: every later call says so

 private:
  bool may_start(const Stream& stream, const Operation& operation) const;
  bool start(Stream& stream);
  bool run(Stream& stream);
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
