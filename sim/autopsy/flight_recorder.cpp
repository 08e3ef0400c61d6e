// Reads the entries of PyTorch's flight recorder. Entries of SENDs and RECVs are named "nccl:send 0->1"
// and "nccl:recv 1<-0", with the ranks of their group. If several of them are in one group call, they are
// members of the "coalesced" entry that follows them. In some versions, the members stay in the state
// `scheduled` for ever. So the state of the "coalesced" entry counts for its members. Tests:
// tests/sim/hang_test.cpp.

#include "sim/autopsy/trace_formats.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "report/result/result_json.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

using DumpedJson = nlohmann::json;

std::string word_at(const DumpedJson& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::int64_t integer_at(const DumpedJson& object, const char* key, std::int64_t otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : otherwise;
}

/// Returns the ranks of a process group. The dump states them as a list or as the text "[0, 1]".
std::vector<std::int64_t> ranks_of_group(const DumpedJson& group) {
  std::vector<std::int64_t> ranks;
  const auto found = group.is_object() ? group.find("ranks") : group.end();
  if (!group.is_object() || found == group.end()) return ranks;
  const DumpedJson list =
      found->is_string() ? DumpedJson::parse(found->get<std::string>(), nullptr, false) : *found;
  if (!list.is_array()) return ranks;
  for (const DumpedJson& rank : list) {
    if (rank.is_number_integer()) ranks.push_back(rank.get<std::int64_t>());
  }
  return ranks;
}

/// Returns the two ranks of a text such as "0->1" or "1<-0". The first one is the rank that recorded the
/// entry.
std::optional<std::pair<std::int64_t, std::int64_t>> ends_of(std::string_view text) {
  const auto own = leading_number<std::int32_t>(text);
  if (!own.value) return std::nullopt;
  text.remove_prefix(own.spelling.size());
  if (!text.starts_with("->") && !text.starts_with("<-")) return std::nullopt;
  const auto other = number_of_text<std::int32_t>(text.substr(2));
  if (!other) return std::nullopt;
  return std::pair<std::int64_t, std::int64_t>(*own.value, *other);
}

class DumpReader {
 public:
  DumpReader(const DumpedJson& document, RankDump& dump) : document_(document), dump_(dump) {
    if (const auto groups = document.find("pg_config"); groups != document.end() && groups->is_object()) {
      for (const auto& [name, group] : groups->items()) groups_[name] = ranks_of_group(group);
    }
  }

  void read() {
    std::vector<const DumpedJson*> entries;
    for (const DumpedJson& entry : document_["entries"]) {
      if (entry.is_object()) entries.push_back(&entry);
    }
    std::ranges::stable_sort(entries, {},
                             [](const DumpedJson* entry) { return integer_at(*entry, "record_id", 0); });
    dump_.lost_beginning = !entries.empty() && integer_at(*entries.front(), "record_id", 0) > 0;
    for (const DumpedJson* entry : entries) read_entry(*entry);
  }

 private:
  void read_entry(const DumpedJson& entry) {
    const std::string name = word_at(entry, "profiling_name");
    const bool completed =
        word_at(entry, "state") == "completed" || entry.value("retired", DumpedJson(false)) == true;
    const auto colon = name.find(':');
    const std::string_view rest =
        colon == std::string::npos ? name : std::string_view(name).substr(colon + 1);
    const bool sends = rest.starts_with("send ");
    if (sends || rest.starts_with("recv ")) {
      read_message(entry, rest.substr(5), sends, completed);
    } else if (rest.starts_with("coalesced")) {
      // The members of a "coalesced" entry are the messages since the previous "coalesced" entry.
      for (std::size_t i = first_member_; i < dump_.messages.size(); ++i)
        dump_.messages[i].completed = dump_.messages[i].completed || completed;
      first_member_ = dump_.messages.size();
    } else if (!entry.value("is_p2p", DumpedJson(false)).is_boolean() ||
               entry.value("is_p2p", DumpedJson(false)) == false) {
      dump_.collectives.push_back({.group = group_name(entry),
                                   .sequence = integer_at(entry, "collective_seq_id", -1),
                                   .name = name,
                                   .completed = completed});
    }
  }

  void read_message(const DumpedJson& entry, std::string_view ends, bool sends, bool completed) {
    const auto both = ends_of(ends);
    if (!both) return;
    const auto group = groups_.find(group_name(entry));
    std::int64_t peer = both->second;
    if (group != groups_.end() && peer >= 0 && static_cast<std::size_t>(peer) < group->second.size()) {
      dump_.group = group->second;
      peer = group->second[static_cast<std::size_t>(peer)];
    }
    auto sizes = entry.find("input_sizes");
    if (sizes == entry.end() || sizes->empty()) sizes = entry.find("output_sizes");
    dump_.messages.push_back({.is_send = sends,
                              .peer = peer,
                              .completed = completed,
                              .sizes = sizes == entry.end() ? "" : sizes->dump()});
  }

  static std::string group_name(const DumpedJson& entry) {
    const auto found = entry.find("process_group");
    if (found == entry.end()) return "";
    if (found->is_array() && !found->empty() && found->front().is_string())
      return found->front().get<std::string>();
    return found->is_string() ? found->get<std::string>() : "";
  }

  const DumpedJson& document_;
  RankDump& dump_;
  std::map<std::string, std::vector<std::int64_t>> groups_;
  std::size_t first_member_ = 0;
};

bool is_pickle(std::string_view text) { return text.size() > 1 && text[0] == '\x80' && text[1] <= 5; }

}  // namespace

bool is_flight_recorder(std::string_view text) {
  return is_pickle(text) || (text.find("\"entries\"") != std::string_view::npos &&
                             text.find("\"profiling_name\"") != std::string_view::npos);
}

tl::expected<RankDump, std::string> read_flight_recorder(std::string_view text, std::string_view file) {
  if (is_pickle(text)) {
    return tl::unexpected(
        fmt::format("{0}: expected a flight recorder's dump as JSON, got a pickle, which can run code when "
                    "it is read; where you "
                    "trust the file, convert it: python3 -c \"import json, pickle, sys; "
                    "json.dump(pickle.load(open(sys.argv[1], "
                    "'rb')), open(sys.argv[1] + '.json', 'w'))\" {0}",
                    file));
  }
  const auto document = json_of<DumpedJson>(text);
  if (!document) return tl::unexpected(fmt::format("{}: {}", file, document.error()));
  const auto entries = document->is_object() ? document->find("entries") : document->end();
  if (!document->is_object() || entries == document->end() || !entries->is_array())
    return tl::unexpected(fmt::format("{}: expected a list \"entries\", got none", file));
  RankDump dump;
  const std::int64_t stated = integer_at(*document, "rank", -1);
  const auto rank = stated >= 0 ? std::optional(stated) : rank_in_name(file);
  if (!rank) {
    return tl::unexpected(
        fmt::format("{}: expected a file name such as dump_rank_3.json, got another", file));
  }
  dump.rank = *rank;
  DumpReader(*document, dump).read();
  return dump;
}

}  // namespace penstock
