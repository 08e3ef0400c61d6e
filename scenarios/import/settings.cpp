// Stores the keys of a configuration. For each key it records whether the importer used, ignored or
// refused it.

#include "scenarios/import/settings.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/read/document.hpp"
#include "text/enum_words.hpp"
#include "text/numbers.hpp"

namespace penstock {

namespace {

template <std::size_t count>
bool is_one_of(std::string_view value, const std::array<std::string_view, count>& words) {
  const std::string plain = plain_name(value);
  return std::ranges::find(words, std::string_view(plain)) != words.end();
}

/// Returns the items of a list as one text, separated by blanks.
std::string list_text(const Node& list) {
  std::string text;
  for (const Node& item : list.items) {
    if (!text.empty()) text += ' ';
    text += item.kind == Node::Kind::list ? list_text(item) : item.text;
  }
  return text;
}

/// Returns a name with underscores in place of dashes, without dashes in front and in lower case.
std::string underscored(std::string_view name) {
  std::string text(name.substr(std::min(name.find_first_not_of('-'), name.size())));
  std::ranges::replace(text, '-', '_');
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// Returns the whole number that a text means, or nothing. The text may have a decimal point or an
/// exponent, such as 4.0 or 1e6.
std::optional<std::int64_t> whole_of(std::string_view text) {
  if (const auto whole = number_of_text<std::int64_t>(text)) return whole;
  constexpr double kMost = 9e15;  // the largest number up to which a double stores all whole numbers exactly
  const auto decimal = finite_number(text);
  if (!decimal || *decimal != std::floor(*decimal) || std::abs(*decimal) > kMost) return std::nullopt;
  return static_cast<std::int64_t>(*decimal);
}

/// Returns the reason why a value is not a whole number of at least `least`. If the value contains a shell
/// variable that the script does not set, the reason names the variable.
std::string number_fault(std::string_view value, std::int64_t least) {
  const std::size_t begin = value.find("${");
  if (begin != std::string_view::npos) {
    const std::string_view name = value.substr(begin + 2, value.find('}', begin) - begin - 2);
    if (name.starts_with('('))
      return "is the output of a command, which is not run; write the number in its place";
    if (number_of_text<std::int64_t>(name))
      return "is an argument with which the script is called; write the number in its place";
    return fmt::format(
        "depends on {}, whose value the file does not state; write the number in its place, or {}=NUMBER on "
        "a line before the command",
        name, name);
  }
  if (value == "auto")
    return "the value is chosen when the run starts; replace auto by the number that the run uses";
  return fmt::format("expected a whole number from {} on, got \"{}\"", least, value);
}

}  // namespace

bool is_null_value(std::string_view value) {
  // Capital letters matter here. "None" is Python's null, but "none" is a value of some settings, such as
  // activation_checkpoint.mode.
  constexpr auto kWords = std::to_array<std::string_view>({"", "null", "None", "~"});
  return std::ranges::find(kWords, value) != kWords.end();
}

bool is_off_value(std::string_view value) {
  constexpr auto kWords = std::to_array<std::string_view>({"false", "no", "off", "0", "none"});
  return is_null_value(value) || is_one_of(value, kWords);
}

void Settings::add(std::string key, std::string value) {
  std::string plain = plain_name(key);
  std::string name = underscored(key);
  for (Entry& earlier : entries_) {
    if (earlier.plain != plain) continue;
    earlier.plain.clear();
    earlier.key.fate = Fate::ignored;
    earlier.key.text = "the file states it again later";
    earlier.is_settled = true;
  }
  Entry entry{.key = {.key = std::move(key), .value = std::move(value), .fate = Fate::ignored, .text = ""},
              .plain = std::move(plain),
              .name = std::move(name)};
  if (is_null_value(entry.key.value)) {
    entry.key.text = "has no value";
    entry.is_settled = true;
  }
  entries_.push_back(std::move(entry));
}

void Settings::add_document(const Node& node, const std::string& prefix) {
  switch (node.kind) {
    case Node::Kind::mapping:
      for (const Node::Entry& entry : node.entries)
        add_document(entry.value, prefix.empty() ? entry.key.text : prefix + "." + entry.key.text);
      return;
    case Node::Kind::list: {
      const auto is_mapping = [](const Node& item) { return item.kind == Node::Kind::mapping; };
      if (std::ranges::none_of(node.items, is_mapping)) {
        add(prefix, list_text(node));
        return;
      }
      for (std::size_t i = 0; i < node.items.size(); ++i)
        add_document(node.items[i], fmt::format("{}.{}", prefix, i));
      return;
    }
    case Node::Kind::scalar:
    case Node::Kind::nothing:
      add(prefix, node.text);
      return;
  }
}

void Settings::compare_last_parts() {
  std::vector<Entry> entries;
  entries.swap(entries_);
  for (Entry& entry : entries) {
    const std::size_t point = entry.key.key.rfind('.');
    const std::string last = entry.key.key.substr(point == std::string::npos ? 0 : point + 1);
    if (entry.is_settled) {
      entries_.push_back(std::move(entry));
      continue;
    }
    add(last, std::move(entry.key.value));
    entries_.back().key.key = std::move(entry.key.key);
  }
}

void Settings::rename(std::string_view from, std::string_view to) {
  const std::string before = underscored(from);
  for (Entry& entry : entries_) {
    if (!entry.name.starts_with(before)) continue;
    entry.name = underscored(to) + entry.name.substr(before.size());
    // The name of a key that the file states again later stays empty, so that it is not found.
    if (!entry.plain.empty()) entry.plain = plain_name(entry.name);
  }
}

std::size_t Settings::index_of(std::string_view name) const {
  known_.emplace(name);
  const std::string plain = plain_name(name);
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return entry.plain == plain && !is_null_value(entry.key.value); });
  return static_cast<std::size_t>(found - entries_.begin());
}

const std::string* Settings::find(std::string_view name) const {
  const std::size_t index = index_of(name);
  return index == entries_.size() ? nullptr : &entries_[index].key.value;
}

void Settings::decide(std::string_view name, Fate fate, std::string_view text) {
  const std::size_t index = index_of(name);
  if (index == entries_.size()) return;
  Entry& entry = entries_[index];
  entry.key.fate = fate;
  entry.key.text = text;
  entry.is_settled = true;
}

void Settings::take(std::string_view name, std::string_view target) { decide(name, Fate::taken, target); }

void Settings::ignore(std::string_view name, std::string_view reason) { decide(name, Fate::ignored, reason); }

void Settings::refuse(std::string_view name, std::string_view reason) { decide(name, Fate::refused, reason); }

std::optional<std::string> Settings::word(std::string_view name, std::string_view target) {
  const std::string* value = find(name);
  if (value == nullptr) return std::nullopt;
  take(name, target);
  return *value;
}

std::optional<std::int64_t> Settings::number(std::string_view name, std::string_view target,
                                             std::int64_t least) {
  const std::string* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto number = whole_of(*value);
  if (!number || *number < least) {
    refuse(name, number_fault(*value, least));
    return std::nullopt;
  }
  take(name, target);
  return number;
}

bool Settings::is_on(std::string_view name, std::string_view target) {
  const std::string* value = find(name);
  if (value == nullptr) return false;
  if (value->find("${") != std::string::npos) {
    refuse(name, fmt::format("is followed by {}, whose value the file does not state; write it out", *value));
    return false;
  }
  const bool is_off = is_off_value(*value);
  decide(name, is_off ? Fate::ignored : Fate::taken, is_off ? std::string_view("switched off") : target);
  return !is_off;
}

namespace {

/// Returns true if a name of the row is the whole key.
bool names_key(const SettledRow& row, std::string_view plain) {
  for (std::string_view rest = row.names; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    if (!name.ends_with('*') && plain == plain_name(name)) return true;
  }
  return false;
}

/// Returns true if the key begins with a name of the row that ends in *. The underscores count, because
/// "te_*" does not mean "tensor".
bool names_beginning(const SettledRow& row, std::string_view key) {
  for (std::string_view rest = row.names; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    if (name.ends_with('*') && key.starts_with(underscored(name.substr(0, name.size() - 1)))) return true;
  }
  return false;
}

}  // namespace

void Settings::settle(std::span<const SettledRow> rows) {
  for (Entry& entry : entries_) {
    if (entry.is_settled) continue;
    auto row =
        std::ranges::find_if(rows, [&](const SettledRow& each) { return names_key(each, entry.plain); });
    if (row == rows.end()) {
      row = std::ranges::find_if(rows,
                                 [&](const SettledRow& each) { return names_beginning(each, entry.name); });
    }
    if (row == rows.end()) continue;
    const bool is_off = row->fate == Fate::refused && is_off_value(entry.key.value);
    entry.key.fate = is_off ? Fate::ignored : row->fate;
    entry.key.text = is_off ? std::string_view("switched off") : row->reason;
    entry.is_settled = true;
  }
}

namespace {

/// Returns the part of a key after its last point.
std::string_view last_part(std::string_view key) { return key.substr(key.rfind('.') + 1); }  // npos + 1 is 0

/// Returns true if the user means this key by `name`, with or without the parts in front of it.
bool is_key_of_name(std::string_view key, std::string_view name) {
  return plain_name(name) == plain_name(key) || plain_name(name) == plain_name(last_part(key));
}

/// Returns true if the key is a flag of penstock: --device, --devices or --nodes. Users sometimes write such
/// a flag after "--" by mistake.
bool is_own_flag(std::string_view key) { return key == "--device" || key == "--devices" || key == "--nodes"; }

}  // namespace

bool Settings::states(std::string_view name) const {
  return std::ranges::any_of(entries_,
                             [&](const Entry& entry) { return is_key_of_name(entry.key.key, name); });
}

std::vector<ImportedKey> Settings::report(std::span<const std::string> left_out) const {
  std::vector<ImportedKey> keys;
  const std::vector<std::string_view> known(known_.begin(), known_.end());
  for (const Entry& entry : entries_) {
    ImportedKey key = entry.key;
    const auto has_its_name = [&](std::string_view name) { return plain_name(name) == entry.plain; };
    if (!entry.is_settled && std::ranges::any_of(known, has_its_name)) {
      // An importer looked for the key, but could not use its value.
      key.text =
          whole_of(key.value).value_or(0) > 0 ? "not used beside the other keys" : number_fault(key.value, 1);
    } else if (!entry.is_settled) {
      key.text = is_own_flag(key.key) ? "unknown; a flag of penstock goes in front of --"
                                      : "unknown" + did_you_mean(entry.name, known);
    }
    const auto is_named = [&](const std::string& name) { return is_key_of_name(key.key, name); };
    if (key.fate == Fate::refused && std::ranges::any_of(left_out, is_named)) {
      key.fate = Fate::ignored;
      key.text = "left out by --ignore: " + key.text;
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

}  // namespace penstock
