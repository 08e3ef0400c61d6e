#pragma once
// A model of NCCL's communicators: the order of operations and the effects of failures.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <nccl.h>

#include "tests/backend/standin/devices.hpp"
#include "tests/backend/standin/vector_clock.hpp"

namespace standin {

struct Clique;

/// The communicator of one rank.
struct Communicator {
  Clique* clique = nullptr;
  int rank = 0;
  int device = 0;
  std::uint64_t number = 0;  ///< the communicator's number on its device
  ncclResult_t failure = ncclSuccess;
  std::function<bool()> settled{};  ///< the communicator is in progress until this returns true
  bool is_opening = false;          ///< true from the call to open it, or from the end of that call's group
  bool aborted = false;
  bool gone = false;          ///< true if the communicator was aborted or destroyed
  std::uint64_t pending = 0;  ///< the number of operations that have not left their streams
  /// The number of transfers so far, by sender and receiver.
  std::map<std::pair<int, int>, std::uint64_t> transfers{};
  std::uint64_t collectives = 0;
};

/// The part of one rank in a transfer or collective.
struct Part {
  Communicator* communicator = nullptr;
  const char* name = "";
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  bool started = false;
  VectorClock clock{};  ///< the clock of its stream when the part started
};

/// The parts of one operation: the sender's and the receiver's part of a transfer, or one part for each
/// member.
struct Meeting {
  std::vector<std::shared_ptr<Part>> parts;
  bool judged = false;
  bool all_started() const;
};

struct Clique {
  int size = 0;
  std::vector<Communicator*> members;
  bool is_open = false;
  std::map<std::tuple<int, int, std::uint64_t>, Meeting> transfers;
  std::map<std::uint64_t, Meeting> collectives;
  /// For each kind, pair and size class, the ranks that have used it so far.
  std::map<std::tuple<int, int, int, int>, std::set<int>> connections;
};

class NcclModel {
 public:
  std::string new_id();
  Communicator* join(const std::string& id, int size, int rank, int device);
  /// Begins to open the communicator. It is open some time after its last member has begun.
  static void begin_to_open(Communicator& communicator);
  /// Returns the state for ncclCommGetAsyncError().
  ncclResult_t state(Communicator& communicator);
  /// Enqueues an operation of these parts on the stream. Each part belongs to a meeting.
  void launch(Stream& stream, const std::vector<std::pair<std::shared_ptr<Part>, Meeting*>>& parts);
  /// Lets the first operation of a kind and size class wait for its peers.
  void connect(Communicator& communicator, int kind, int from, int to, std::size_t bytes);
  void abort(const std::vector<Communicator*>& communicators);
  void report_leaks() const;
  std::uint64_t launch_digest() const;
  /// Returns a text about the operations that block others, for the report of a hang.
  std::string launches() const;

  std::uint64_t operations = 0;  ///< the number of operations of all ranks so far

 private:
  struct Launch {
    const char* name;
    std::size_t stream;
    bool started = false;
  };
  bool may_start(const Stream& stream, const std::shared_ptr<Launch>& launch);

  std::map<std::string, std::unique_ptr<Clique>> cliques_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Launch>>>
      launched_;                          // by device and process, in launch order
  std::map<int, std::uint64_t> digests_;  // of the same
  std::uint64_t ids_ = 0;
};

}  // namespace standin
