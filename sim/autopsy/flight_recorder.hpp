#pragma once
// Reads dumps of PyTorch's flight recorder. A dump says which operations a rank has posted to its process
// groups, and which of them have completed. hang.hpp finds the pipeline action that is missing.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

namespace penstock {

/// One SEND or RECV of a rank.
struct PostedMessage {
  bool is_send = false;
  std::int64_t peer = 0;  ///< rank of the world
  bool completed = false;
  std::string sizes;  ///< sizes of the tensor, as text
};

/// One collective of a rank.
struct PostedCollective {
  std::string group;
  std::int64_t sequence = 0;
  std::string name;
  bool completed = false;
};

/// The flight recorder's dump of one rank. Entries are in the order in which the rank posted them.
struct RankDump {
  std::int64_t rank = 0;
  bool lost_beginning = false;        ///< true if the ring buffer has dropped its first entries
  std::vector<std::int64_t> group{};  ///< world ranks of the group of its messages; empty if not stated
  std::vector<PostedMessage> messages{};
  std::vector<PostedCollective> collectives{};
};

/// Returns true if the text is a dump of PyTorch's flight recorder, as JSON or as a pickle.
bool is_flight_recorder(std::string_view text);

/// Reads the dump of one rank. The rank's number follows the word "rank" in the name of the file. A pickle
/// is refused, because reading it can run code. The message says how to write JSON instead.
tl::expected<RankDump, std::string> read_flight_recorder(std::string_view text, std::string_view file);

}  // namespace penstock
