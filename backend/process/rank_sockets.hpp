#pragma once
// Socket pairs between processes that are about to be forked, which nobody else can reach: one from each rank
// to the coordinator, and one for each two ranks that exchange anything. Private to process_execution.cpp.

#include <cstdint>
#include <map>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace penstock {

/// An open file that this owns.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  /// Somebody else's from now on.
  int release();

 private:
  int number_ = -1;
};

/// What one rank's process is connected by.
struct RankEnds {
  Descriptor coordinator;
  std::map<std::int32_t, Descriptor> peers;  // by rank
};

/// The ends that are in this process. Ranks are forked in their order.
class RankSockets {
 public:
  /// `peers`: by rank, ascending.
  explicit RankSockets(const std::vector<std::vector<std::int32_t>>& peers);

  /// Makes what the next rank needs that is not there yet. Error: too few descriptors.
  tl::expected<void, std::string> open_for(std::int32_t rank);
  /// In the rank's process: its ends; all others of this process are closed.
  RankEnds take(std::int32_t rank);
  /// In the parent, when the rank has been forked: its ends are the child's alone.
  void close_ends_of(std::int32_t rank);
  /// In the parent: the coordinator's ends, by rank.
  std::vector<Descriptor> take_coordinators();

 private:
  const std::vector<std::vector<std::int32_t>>& peers_;
  std::vector<RankEnds> ends_;  // by rank
  std::vector<Descriptor> coordinators_;
};

/// As many open files as the system allows this process; for as long as this lives.
class MostDescriptors {
 public:
  MostDescriptors();
  MostDescriptors(const MostDescriptors&) = delete;
  MostDescriptors& operator=(const MostDescriptors&) = delete;
  ~MostDescriptors();

 private:
  unsigned long before_ = 0;  // 0: as it was
};

}  // namespace penstock
