// Reads the entries of PyTorch's flight recorder. Entries of SENDs and RECVs are named "nccl:send 0->1"
// and "nccl:recv 1<-0", with the ranks of their group. If several of them are in one group call, they are
// members of the "coalesced" entry that follows them. In some versions, the members stay in the state
// `scheduled` for ever. So the state of the "coalesced" entry counts for its members. Tests:
// tests/sim/hang_test.cpp.

#include "sim/autopsy/trace_formats.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

/// Returns a value as JSON text. Bytes that are not valid UTF-8, which a pickle may contain, are replaced.
std::string text_of_value(const DumpedJson& value) {
  return value.dump(-1, ' ', false, DumpedJson::error_handler_t::replace);
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
                              .sizes = sizes == entry.end() ? "" : text_of_value(*sizes)});
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

/// A reader of a pickle of protocol 2 that holds only dicts, lists, tuples, texts, numbers, bools and None.
/// Torch writes its dumps in this form. An opcode that could name or call code is refused, so that a file
/// cannot run code. Values refer to each other by number, because a pickle may use one list in two places.
class PlainPickle {
 public:
  explicit PlainPickle(std::string_view bytes) : bytes_(bytes) {}

  /// Returns the pickled value as JSON, or a sentence about what is wrong with the file.
  tl::expected<DumpedJson, std::string> read() {
    while (error_.empty()) {
      const unsigned char opcode = byte();
      if (!error_.empty() || opcode == '.') break;
      run(opcode);
    }
    if (error_.empty() && stack_.size() != 1) fail("does not end with one value");
    if (!error_.empty()) return tl::unexpected(error_);
    DumpedJson document = json_value(stack_.front(), 0);
    if (!error_.empty()) return tl::unexpected(error_);
    return document;
  }

 private:
  enum class Kind : std::uint8_t { plain, list, dict };
  struct Value {
    Kind kind = Kind::plain;
    DumpedJson plain{};
    std::vector<std::size_t> items{};  // items of a list or tuple; for a dict, keys and values in turn
  };
  static constexpr int kDeepest = 64;
  static constexpr std::size_t kMostValues = std::size_t{1} << 22U;
  static constexpr std::string_view kTooMany = "has more than 4194304 values";

  void fail(std::string_view what) {
    if (error_.empty()) error_ = fmt::format("the pickle {} (at byte {})", what, at_);
  }

  unsigned char byte() { return static_cast<unsigned char>(number(1)); }
  /// Reads a whole number of `length` bytes, with the lowest byte first.
  std::uint64_t number(std::size_t length) {
    const std::string_view text = taken(length);
    std::uint64_t value = 0;
    for (std::size_t i = text.size(); i-- > 0;) value = value << 8U | static_cast<unsigned char>(text[i]);
    return value;
  }
  std::string_view taken(std::size_t length) {
    if (length > bytes_.size() - at_) {
      fail("ends too early");
      return {};
    }
    at_ += length;
    return bytes_.substr(at_ - length, length);
  }

  void push(Value value) {
    if (values_.size() >= kMostValues) return fail(kTooMany);
    values_.push_back(std::move(value));
    stack_.push_back(values_.size() - 1);
  }
  void push_plain(DumpedJson plain) { push({.plain = std::move(plain)}); }

  /// Removes and returns the values above the latest mark.
  std::vector<std::size_t> above_mark() {
    if (marks_.empty() || marks_.back() > stack_.size()) {
      fail("has items without their beginning");
      return {};
    }
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    return popped(stack_.size() - mark);
  }
  std::vector<std::size_t> popped(std::size_t count) {
    if (count > stack_.size() || (!marks_.empty() && stack_.size() - count < marks_.back())) {
      fail("takes more values than it has");
      return {};
    }
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<std::size_t> values(first, stack_.end());
    stack_.erase(first, stack_.end());
    return values;
  }
  void add_to_top(Kind kind, const std::vector<std::size_t>& items) {
    if (!error_.empty()) return;
    if (stack_.empty() || values_[stack_.back()].kind != kind ||
        (kind == Kind::dict && items.size() % 2 != 0))
      return fail("adds items to a value that takes none");
    auto& own = values_[stack_.back()].items;
    own.insert(own.end(), items.begin(), items.end());
  }
  void remember(std::size_t key) {
    if (stack_.empty()) return fail("stores a value that it does not have");
    memo_[key] = stack_.back();
  }
  void recall(std::size_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) return fail("uses a value that it has not stored");
    stack_.push_back(found->second);
  }

  void run(unsigned char opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        if (byte() > 2) fail("is of a protocol above 2");
        return;
      case '}':
        return push({.kind = Kind::dict});
      case ']':
      case ')':
        return push({.kind = Kind::list});
      case '(':
        return marks_.push_back(stack_.size());
      case 'a':
        return add_to_top(Kind::list, popped(1));
      case 'e':
        return add_to_top(Kind::list, above_mark());
      case 's':
        return add_to_top(Kind::dict, popped(2));
      case 'u':
        return add_to_top(Kind::dict, above_mark());
      case 't':
        return push({.kind = Kind::list, .items = above_mark()});
      case 0x85:  // TUPLE1 to TUPLE3
      case 0x86:
      case 0x87:
        return push({.kind = Kind::list, .items = popped(opcode - 0x84U)});
      case 'X': {  // BINUNICODE
        const std::size_t length = number(4);
        return push_plain(DumpedJson(std::string(taken(length))));
      }
      case 'K':
        return push_plain(DumpedJson(byte()));
      case 'M':
        return push_plain(DumpedJson(number(2)));
      case 'J':
        return push_plain(DumpedJson(static_cast<std::int32_t>(static_cast<std::uint32_t>(number(4)))));
      case 0x8a: {  // LONG1
        const std::size_t length = byte();
        if (length > 8) return fail("has a number of more than 8 bytes");
        const std::uint64_t value = number(length);
        const bool is_negative = length > 0 && (value >> (8 * length - 1)) != 0;
        const std::uint64_t above = is_negative && length < 8 ? ~std::uint64_t{0} << (8 * length) : 0;
        return push_plain(DumpedJson(static_cast<std::int64_t>(value | above)));
      }
      case 'G': {  // BINFLOAT, with the highest byte first
        std::string reversed(taken(8));
        std::ranges::reverse(reversed);
        double value = 0;
        if (reversed.size() == sizeof value) std::memcpy(&value, reversed.data(), sizeof value);
        return push_plain(DumpedJson(value));
      }
      case 'N':
        return push_plain(nullptr);
      case 0x88:
        return push_plain(true);
      case 0x89:
        return push_plain(false);
      case 'q':
        return remember(byte());
      case 'r':
        return remember(number(4));
      case 'h':
        return recall(byte());
      case 'j':
        return recall(number(4));
      default:
        return fail(
            fmt::format("has opcode 0x{:02x}, and only dicts, lists, tuples, texts, numbers, bools and None "
                        "are read, because others can run code",
                        opcode));
    }
  }

  /// Returns a value as JSON. Keys that are numbers become texts.
  DumpedJson json_value(std::size_t number, int depth) {
    if (depth > kDeepest) fail("is nested more than 64 levels deep");
    if (++made_ > kMostValues) fail(kTooMany);
    if (!error_.empty()) return {};
    const Value& value = values_[number];
    if (value.kind == Kind::plain) return value.plain;
    DumpedJson made = value.kind == Kind::list ? DumpedJson::array() : DumpedJson::object();
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      if (value.kind == Kind::list) {
        made.push_back(json_value(value.items[i], depth + 1));
      } else if (i % 2 == 1) {
        const DumpedJson key = json_value(value.items[i - 1], depth + 1);
        made[key.is_string() ? key.get<std::string>() : text_of_value(key)] =
            json_value(value.items[i], depth + 1);
      }
      if (!error_.empty()) return {};
    }
    return made;
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::size_t made_ = 0;
  std::string error_;
  std::vector<Value> values_;
  std::vector<std::size_t> stack_;  // the pickle's stack, as numbers of values
  std::vector<std::size_t> marks_;  // the height of the stack at each mark
  std::map<std::size_t, std::size_t> memo_;
};

tl::expected<DumpedJson, std::string> dumped_document(std::string_view text) {
  if (!is_pickle(text)) return json_of<DumpedJson>(text);
  auto document = PlainPickle(text).read();
  if (document) return document;
  return tl::unexpected(
      fmt::format("expected a dump as torch writes it (a pickle of protocol 2 with plain values) or as JSON: "
                  "{}",
                  document.error()));
}

}  // namespace

bool is_flight_recorder(std::string_view text) {
  return is_pickle(text) || (text.find("\"entries\"") != std::string_view::npos &&
                             text.find("\"profiling_name\"") != std::string_view::npos);
}

tl::expected<RankDump, std::string> read_flight_recorder(std::string_view text, std::string_view file) {
  const auto document = dumped_document(text);
  if (!document) return tl::unexpected(fmt::format("{}: {}", file, document.error()));
  const auto entries = document->is_object() ? document->find("entries") : document->end();
  if (!document->is_object() || entries == document->end() || !entries->is_array())
    return tl::unexpected(fmt::format("{}: expected a list \"entries\", got none", file));
  RankDump dump;
  const std::int64_t stated = integer_at(*document, "rank", -1);
  const auto rank = stated >= 0 ? std::optional(stated) : rank_in_name(file);
  if (!rank) {
    return tl::unexpected(fmt::format(
        "{}: expected a file name such as nccl_trace_rank_3 or dump_rank_3.json, got another", file));
  }
  dump.rank = *rank;
  DumpReader(*document, dump).read();
  return dump;
}

}  // namespace penstock
