// Reads typed values from the nodes of a scenario. Each kind of value has one function that parses its text.
// `parsed` and `per_stage` find the keys and check lists for all kinds of values.

#include "scenarios/read/reader.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/quantities.hpp"
#include "schedules/ir/action.hpp"
#include "text/enum_words.hpp"
#include "text/numbers.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

/// Returns the value that `parse` reads from a scalar. For a list or a mapping, returns the error that
/// `parse` reports for it.
template <typename Value, typename Parse>
tl::expected<Value, std::string> value_of(const Node& node, Parse parse) {
  if (node.kind == Node::Kind::scalar) return parse(node.text);
  // Every parser refuses an empty text, with a message that says what is expected. Only the end of this
  // message, "got ..", is replaced.
  std::string expected = parse(std::string_view{}).error();
  expected.erase(expected.rfind(", got "));
  return tl::unexpected(fmt::format("{}, got {}", expected, describe(node)));
}

tl::expected<bool, std::string> parse_flag(std::string_view text) {
  std::string word(text);
  std::ranges::transform(word, word.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (word == "true" || word == "on" || word == "yes") return true;
  if (word == "false" || word == "off" || word == "no") return false;
  return tl::unexpected(fmt::format("expected true (on) or false (off), got \"{}\"", text));
}

/// Returns at most the first 40 characters of a text, for a message.
std::string shortened(const std::string& text) {
  constexpr std::size_t kMost = 40;
  return text.size() <= kMost ? text : fmt::format("{}...", text.substr(0, kMost));
}

bool is_list(const Node& node) { return node.kind == Node::Kind::list; }
bool states_slices(const Node& node) {
  return node.kind == Node::Kind::mapping && node.find("slices") != nullptr;
}

/// Returns the name of the mapping of a scenario that has the key, if only one mapping has it. Returns an
/// empty text if no mapping or several mappings have it.
std::string_view owner_of(std::string_view key) {
  std::string_view owner;
  for (const KeyGroup& group : scenario_keys()) {
    if (group.path == owner || std::ranges::find(group.keys, key, &Key::name) == group.keys.end()) continue;
    if (!owner.empty()) return "";
    owner = group.path;
  }
  return owner;
}

/// Returns a message such as "unknown key; did you mean stages? Known: name, stages". If no known key is
/// similar and only one mapping has this key, the message names that mapping.
std::string unknown_key(std::string_view key, std::span<const std::string_view> known) {
  std::string hint = did_you_mean(key, known);
  if (const std::string_view owner = owner_of(key); hint.empty() && !owner.empty())
    hint = fmt::format("; it is a key of {}.", owner);
  return fmt::format("unknown key{} Known: {}", hint.empty() ? "." : hint, listed(known));
}

/// Returns the mean of the values, rounded to the nearest whole number. Returns 0 if there are no values.
tl::expected<std::int64_t, std::string> mean(const std::vector<std::int64_t>& values) {
  // Each value may be almost 2^63, so the sum needs more than 64 bits.
  Wide sum = 0;
  for (const std::int64_t value : values) sum += value;
  const auto count = static_cast<Wide>(std::max<std::size_t>(values.size(), 1));
  return static_cast<std::int64_t>((sum + count / 2) / count);
}

}  // namespace

void Problem::note(const Node& node, std::string_view path, std::string_view text) {
  note(message_at(node, path, text));
}

void Problem::note(std::string message) {
  if (noted_.insert(message).second) messages_.push_back(std::move(message));
}

void Problem::note(const Problem& part) {
  for (const std::string& message : part.messages_) note(message);
}

std::string Problem::message() const {
  constexpr std::size_t kMostShown = 8;
  const std::span shown(messages_.data(), std::min(messages_.size(), kMostShown));
  const std::size_t hidden = messages_.size() - shown.size();
  return fmt::format("{}{}", fmt::join(shown, "\n"), hidden == 0 ? "" : fmt::format("\nand {} more", hidden));
}

MappingReader::MappingReader(const Node& node, std::string path, std::span<const Key> keys, Problem& problem)
    : node_(&node), path_(std::move(path)), keys_(keys), problem_(&problem) {
  std::vector<std::string_view> names;
  names.reserve(keys.size());
  for (const Key& key : keys) names.push_back(key.name);
  if (node.kind != Node::Kind::mapping) {
    problem.note(node, path_,
                 fmt::format("expected a mapping with the keys {}, got {}", listed(names), describe(node)));
  }
  const auto is_known = [&names](const Node::Entry& entry) {
    return std::ranges::find(names, entry.key.text) != names.end();
  };
  // If all keys are unknown, the user probably named a wrong file. The message does not quote the file's
  // lines, because they may be secret.
  if (node.entries.size() > 1 && std::ranges::none_of(node.entries, is_known)) {
    const Node& first = node.entries.front().key;
    problem.note(
        first, path_of(shortened(first.text)),
        fmt::format("unknown key, as are all {} here; expected {}", node.entries.size(), listed(names)));
    return;
  }
  // A node that is not a mapping has no entries, so the loop records nothing more.
  for (const Node::Entry& entry : node.entries) {
    if (!is_known(entry))
      problem.note(entry.key, path_of(entry.key.text), unknown_key(entry.key.text, names));
  }
}

const Key& MappingReader::row(std::string_view key) const {
  static constexpr Key kNoKey{};
  const auto found = std::ranges::find(keys_, key, &Key::name);
  return found == keys_.end() ? kNoKey : *found;
}

std::string MappingReader::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void MappingReader::complain(std::string_view key, std::string_view text) const {
  const Node* value = find(key);
  problem_->note(value != nullptr ? *value : *node_, path_of(key), text);
}

template <typename Value, typename Parse>
std::optional<Value> MappingReader::parsed(std::string_view key, Parse parse) const {
  const Node* value = find(key);
  if (value == nullptr) return std::nullopt;
  auto result = value_of<Value>(*value, parse);
  if (result) return *result;
  problem_->note(*value, path_of(key), result.error());
  return std::nullopt;
}

template <typename Value, typename Parse>
PerStage<Value> MappingReader::per_stage(std::string_view key, Parse parse) const {
  const Node* value = find(key);
  if (value == nullptr) return {};
  PerStage<Value> figures{.values = {},
                          .is_list = value->kind == Node::Kind::list,
                          .place = fmt::format("{}: {}", place_of(*value), path_of(key))};
  // The place "--set model.stages.forward" already contains the key.
  if (value->source && value->source->override_key == path_of(key)) figures.place = place_of(*value);
  if (!figures.is_list) {
    if (const auto one = parsed<Value>(key, parse)) figures.values.push_back(*one);
    return figures;
  }
  if (value->items.empty()) complain(key, "expected one value or a list of one a stage, got an empty list");
  figures.values = listed_values<Value>(*value, path_of(key), parse);
  return figures;
}

template <typename Value, typename Parse>
std::vector<Value> MappingReader::listed_values(const Node& list, const std::string& path,
                                                Parse parse) const {
  std::vector<Value> values;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    auto one = value_of<Value>(list.items[i], parse);
    if (!one) problem_->note(list.items[i], fmt::format("{}.{}", path, i), one.error());
    values.push_back(one.value_or(0));
  }
  return values;
}

template <typename Value, typename Parse>
PerStage<Value> MappingReader::per_microbatch(std::string_view key, Parse parse) const {
  const Node* value = find(key);
  // Two forms state a figure for each microbatch. In [[1 ms, 3 ms], 2 ms], the value of a stage is a list. In
  // {microbatches: [1 ms, 3 ms]}, the list applies to all stages. {slices: [1 ms, 3 ms]} states a figure for
  // each slice, of all stages or in a stage's place. All other values are figures by stage.
  const bool is_mapping = value != nullptr && value->kind == Node::Kind::mapping;
  const bool by_slice =
      value != nullptr && (states_slices(*value) || std::ranges::any_of(value->items, states_slices));
  if (by_slice) return per_slice<Value>(key, parse);
  const bool is_nested = value != nullptr && std::ranges::any_of(value->items, is_list);
  if (!is_mapping && !is_nested) return per_stage<Value>(key, parse);
  PerStage<Value> figures{
      .values = {}, .is_list = is_nested, .place = fmt::format("{}: {}", place_of(*value), path_of(key))};
  const auto add = [&](const Node& entry, const std::string& path) {
    if (entry.kind == Node::Kind::list && entry.items.empty())
      problem_->note(entry, path, "expected one value a microbatch, got an empty list");
    auto values = is_list(entry) ? listed_values<Value>(entry, path, parse) : std::vector<Value>{};
    const auto one = is_list(entry) ? mean(values) : value_of<Value>(entry, parse);
    if (!one) problem_->note(entry, path, one.error());
    figures.values.push_back(one.value_or(0));
    figures.by_microbatch.push_back(std::move(values));
  };
  if (is_mapping) {
    // with_microbatch_files() has already replaced mappings with `file`. The key is listed here for messages.
    static constexpr std::array<Key, 2> kKeys = {Key{.name = "microbatches"}, Key{.name = "file"}};
    const MappingReader mapping(*value, path_of(key), kKeys, *problem_);
    const Node* list = mapping.find("microbatches");
    if (list == nullptr || !is_list(*list)) {
      problem_->note(
          *value, path_of(key),
          "expected one value, a list of one a stage, {microbatches: [...]} or {file: F.csv} of one "
          "a microbatch, or {slices: [...]} of one a slice");
    } else {
      add(*list, mapping.path_of("microbatches"));
    }
    return figures;
  }
  for (std::size_t i = 0; i < value->items.size(); ++i)
    add(value->items[i], fmt::format("{}.{}", path_of(key), i));
  return figures;
}

template <typename Value, typename Parse>
PerStage<Value> MappingReader::per_slice(std::string_view key, Parse parse) const {
  const Node& value = *find(key);
  const bool is_list_of_stages = value.kind == Node::Kind::list;
  PerStage<Value> figures{.values = {},
                          .is_list = is_list_of_stages,
                          .place = fmt::format("{}: {}", place_of(value), path_of(key)),
                          .by_slice = true};
  const auto add = [&](const Node& entry, const std::string& path) {
    static constexpr std::array<Key, 1> kKeys = {Key{.name = "slices"}};
    const Node* list = entry.find("slices");
    if (list == nullptr || !is_list(*list) || list->items.empty()) {
      problem_->note(entry, path,
                     "expected {slices: [...]} of one value a slice, as another stage has, got " +
                         describe(list != nullptr ? *list : entry));
      return;
    }
    const MappingReader mapping(entry, path, kKeys, *problem_);
    figures.by_microbatch.push_back(listed_values<Value>(*list, mapping.path_of("slices"), parse));
    figures.values.push_back(mean(figures.by_microbatch.back()).value_or(0));
  };
  if (!is_list_of_stages) add(value, path_of(key));
  for (std::size_t i = 0; i < value.items.size(); ++i)
    add(value.items[i], fmt::format("{}.{}", path_of(key), i));
  return figures;
}

std::optional<Ns> MappingReader::duration(std::string_view key) const {
  return parsed<Ns>(key, parse_duration);
}

std::optional<Bytes> MappingReader::bytes(std::string_view key) const {
  return parsed<Bytes>(key, parse_bytes);
}

std::optional<Bytes> MappingReader::limit(std::string_view key) const {
  const Node* value = find(key);
  if (value != nullptr && value->kind == Node::Kind::scalar && value->text == "unlimited")
    return std::nullopt;
  return bytes(key);
}

std::optional<double> MappingReader::bandwidth(std::string_view key) const {
  return parsed<double>(key, parse_bandwidth);
}

std::optional<double> MappingReader::flops(std::string_view key) const {
  return parsed<double>(key, parse_flops);
}

std::optional<std::int64_t> MappingReader::integer(std::string_view key) const {
  return integer(key, row(key).range);
}

std::optional<std::int64_t> MappingReader::integer(std::string_view key, Range range) const {
  return parsed<std::int64_t>(key, [range](std::string_view text) { return whole_number(text, range); });
}

std::int64_t MappingReader::required_integer(std::string_view key) const {
  return required_integer(key, row(key).range);
}

std::int64_t MappingReader::required_integer(std::string_view key, Range range) const {
  if (!has(key)) complain(key, "expected a whole number, got nothing");
  return integer(key, range).value_or(1);
}

std::optional<std::int64_t> MappingReader::whole(const Key& key) const {
  if (key.kind == KeyKind::duration) return duration(key.name);
  if (key.kind == KeyKind::bytes) return bytes(key.name);
  if (key.kind == KeyKind::limit) return limit(key.name);
  const Node* value = find(key.name);
  const bool is_unlimited = key.kind == KeyKind::count && value != nullptr && value->text == "unlimited";
  return is_unlimited ? std::nullopt : integer(key.name, key.range);
}

std::optional<double> MappingReader::real(const Key& key) const {
  if (key.kind == KeyKind::bandwidth) return bandwidth(key.name);
  if (key.kind == KeyKind::rate) return flops(key.name);
  if (key.kind == KeyKind::duration) return parsed<double>(key.name, parse_fine_duration);
  const bool is_factor = key.kind == KeyKind::factor;
  const auto text = word(key.name);
  if (!text) return std::nullopt;
  const auto value = finite_number(*text);
  const auto most = static_cast<double>(key.range.most);
  if (value && (is_factor ? *value > 0 && *value <= most : *value >= 0)) return value;
  complain(key.name, is_factor
                         ? fmt::format("expected a number above 0 and at most {}, got \"{}\"", most, *text)
                         : fmt::format("expected a number such as 2.5, got \"{}\"", *text));
  return std::nullopt;
}

PerStage<std::int64_t> MappingReader::figures(const Key& key) const {
  const bool by_microbatch = key.values == KeyValues::microbatches;
  if (key.kind == KeyKind::duration) {
    return by_microbatch ? per_microbatch<Ns>(key.name, parse_duration)
                         : per_stage<Ns>(key.name, parse_duration);
  }
  return by_microbatch ? per_microbatch<Bytes>(key.name, parse_bytes)
                       : per_stage<Bytes>(key.name, parse_bytes);
}

std::optional<bool> MappingReader::flag(std::string_view key) const { return parsed<bool>(key, parse_flag); }

std::optional<std::string> MappingReader::word(std::string_view key) const {
  return parsed<std::string>(key, [](std::string_view text) -> tl::expected<std::string, std::string> {
    if (!text.empty()) return std::string(text);
    return tl::unexpected(std::string("expected a word, got nothing"));
  });
}

std::optional<std::vector<std::string>> MappingReader::words(std::string_view key) const {
  const Node* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind != Node::Kind::list) complain(key, "expected a list of words, got " + describe(*value));
  std::vector<std::string> result;
  for (std::size_t i = 0; i < value->items.size(); ++i) {
    const Node& item = value->items[i];
    if (item.kind != Node::Kind::scalar) {
      problem_->note(item, fmt::format("{}.{}", path_of(key), i), "expected a word, got " + describe(item));
    }
    result.push_back(item.text);
  }
  return result;
}

std::vector<std::int32_t> MappingReader::integers(std::string_view key, Range range) const {
  const PerStage<std::int64_t> figures =
      per_stage<std::int64_t>(key, [range](std::string_view text) { return whole_number(text, range); });
  return {figures.values.begin(), figures.values.end()};
}

std::optional<std::string_view> MappingReader::choice_of(std::string_view key,
                                                         std::span<const std::string_view> words) const {
  if (!row(key).words.empty()) words = row(key).words;
  const auto parse = [words](std::string_view text) -> tl::expected<std::string_view, std::string> {
    const auto found = std::ranges::find(words, text);
    if (found != words.end()) return *found;
    return tl::unexpected(
        fmt::format("expected {}, got \"{}\"{}", fmt::join(words, " or "), text, did_you_mean(text, words)));
  };
  return parsed<std::string_view>(key, parse);
}

tl::expected<std::int64_t, std::string> integer_of(const Node& node, Range range) {
  return value_of<std::int64_t>(node, [range](std::string_view text) { return whole_number(text, range); });
}

std::string listed(std::span<const std::string_view> words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace penstock
