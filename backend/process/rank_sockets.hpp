#pragma once
// Socket pairs between processes that are about to be forked. No other process can reach them. There is one
// from each rank to the coordinator, and one for each two ranks that exchange messages. Used only by
// process_execution.cpp.

#include <cstdint>
#include <map>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace penstock {

/// An open file descriptor, closed by the destructor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  /// Returns the descriptor and gives up its ownership.
  int release();

 private:
  int number_ = -1;
};

/// The connections of one rank's process.
struct RankEnds {
  Descriptor coordinator;
  std::map<std::int32_t, Descriptor> peers;  // by rank
};

/// The ends that are open in this process. Ranks must be forked in ascending order.
class RankSockets {
 public:
  /// `peers` has for each rank its peers, ascending.
  explicit RankSockets(const std::vector<std::vector<std::int32_t>>& peers);

  /// Makes the pairs that the next rank needs and that do not exist yet. Error: too few descriptors.
  tl::expected<void, std::string> open_for(std::int32_t rank);
  /// Called in the rank's process: returns its ends and closes all others.
  RankEnds take(std::int32_t rank);
  /// Called in the parent after the rank is forked: closes the rank's ends.
  void close_ends_of(std::int32_t rank);
  /// Called in the parent: returns the coordinator's ends, by rank.
  std::vector<Descriptor> take_coordinators();

 private:
  const std::vector<std::vector<std::int32_t>>& peers_;
  std::vector<RankEnds> ends_;  // by rank
  std::vector<Descriptor> coordinators_;
};

/// Raises the limit of open files to the largest allowed value while this object exists.
class MostDescriptors {
 public:
  MostDescriptors();
  MostDescriptors(const MostDescriptors&) = delete;
  MostDescriptors& operator=(const MostDescriptors&) = delete;
  ~MostDescriptors();

 private:
  unsigned long before_ = 0;  // limit before; 0: it was not changed
};

}  // namespace penstock
