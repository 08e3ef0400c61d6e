#pragma once
// Reads dumps of PyTorch's flight recorder: what each rank has posted to its process groups, and what of it
// has completed. hang.hpp finds the pipeline action that is missing.

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

/// The dump of one rank, in the order of posts.
struct RankDump {
  std::int64_t rank = 0;
  bool lost_beginning = false;        ///< true if the ring buffer has dropped its first entries
  std::vector<std::int64_t> group{};  ///< world ranks of the group of its messages; empty if not stated
  std::vector<PostedMessage> messages{};
  std::vector<PostedCollective> collectives{};
};

/// Returns true if a text is a dump as JSON or as a pickle.
bool is_flight_recorder(std::string_view text);

/// Reads the dump of one rank, whose number stands behind "rank" in the name of the file. A pickle is
/// refused, because reading one can run code; the message says how to write JSON.
tl::expected<RankDump, std::string> read_flight_recorder(std::string_view text, std::string_view file);

}  // namespace penstock
