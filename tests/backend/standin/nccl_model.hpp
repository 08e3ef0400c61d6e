#pragma once
// NCCL's communicators, as far as the order of operations and the ends of failures go.

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

/// One rank's handle.
struct Communicator {
  Clique* clique = nullptr;
  int rank = 0;
  int device = 0;
  std::uint64_t number = 0;  ///< among those of its device
  ncclResult_t failure = ncclSuccess;
  std::function<bool()> settled{};  ///< in progress until it holds
  bool aborted = false;
  bool gone = false;                                         ///< aborted or destroyed
  std::uint64_t pending = 0;                                 ///< operations that have not left their streams
  std::map<std::pair<int, int>, std::uint64_t> transfers{};  ///< by sender and receiver
  std::uint64_t collectives = 0;
};

/// One rank's part of a transfer or collective.
struct Part {
  Communicator* communicator = nullptr;
  const char* name = "";
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  int root = -1;
  bool started = false;
  VectorClock clock{};  ///< of its stream, when it started
};

/// The parts that meet: two of a transfer, sender first, or one a member.
struct Meeting {
  std::vector<std::shared_ptr<Part>> parts;
  bool judged = false;
  bool all_started() const;
};

struct Clique {
  int size = 0;
  std::vector<Communicator*> members;
  std::map<std::tuple<int, int, std::uint64_t>, Meeting> transfers;
  std::map<std::uint64_t, Meeting> collectives;
  /// Kinds and size classes that two or all of them have used, and how many have come so far.
  std::map<std::tuple<int, int, int, int>, std::set<int>> connections;
};

class NcclModel {
 public:
  std::string new_id();
  Communicator* join(const std::string& id, int size, int rank, int device);
  /// As ncclCommGetAsyncError() says it.
  ncclResult_t state(Communicator& communicator);
  /// Gives the stream an operation of these parts, which meet others at `meetings`.
  void launch(Stream& stream, const std::vector<std::pair<std::shared_ptr<Part>, Meeting*>>& parts);
  /// The first of its kind and size waits for its peers.
  void connect(Communicator& communicator, int kind, int from, int to, std::size_t bytes);
  void abort(const std::vector<Communicator*>& communicators);
  void report_leaks() const;
  std::uint64_t launch_digest() const;
  /// What holds back what, for a hang.
  std::string launches() const;

  std::uint64_t operations = 0;  ///< of all ranks, so far

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
