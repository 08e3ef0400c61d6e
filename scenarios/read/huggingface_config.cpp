// Records which keys the code reads, and classifies the rest at the end. An unread key is switched off, known
// to have no price, unknown, or a structure that Penstock cannot price.

#include "scenarios/read/huggingface_config.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/read/document.hpp"
#include "scenarios/read/huggingface_keys.hpp"
#include "scenarios/read/reader.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

/// The keys under which models with further parts store the configuration of the text model.
constexpr std::array<std::string_view, 3> kNestedKeys = {"text_config", "language_config", "llm_config"};

bool is_null(const Node& value) {
  return value.kind == Node::Kind::nothing || (value.kind == Node::Kind::scalar && value.text == "null");
}

/// Returns the number of removed entries: 0 or 1, because no key occurs twice.
std::size_t erase(Node* mapping, std::string_view key) {
  if (mapping == nullptr) return 0;
  return std::erase_if(mapping->entries, [key](const Node::Entry& entry) { return entry.key.text == key; });
}

}  // namespace

bool is_off(const Node& value) {
  static constexpr std::array<std::string_view, 8> kOff = {"",  "null", "false", "False",
                                                           "0", "0.0",  "none",  "None"};
  switch (value.kind) {
    case Node::Kind::nothing:
      return true;
    case Node::Kind::scalar:
      return std::ranges::find(kOff, value.text) != kOff.end();
    case Node::Kind::list:
      return value.items.empty();
    case Node::Kind::mapping:
      return value.entries.empty();
  }
  return false;
}

HuggingFaceConfig::HuggingFaceConfig(Node root, Problem& problem)
    : root_(std::move(root)), problem_(&problem) {
  // The first of these keys decides, because a model has one text model.
  for (const std::string_view key : kNestedKeys) {
    const Node* value = std::as_const(root_).find(key);
    if (value != nullptr && value->kind == Node::Kind::mapping && nested_key_.empty()) nested_key_ = key;
  }
  read_.insert(nested_key_);
}

const Node* HuggingFaceConfig::nested() const {
  return nested_key_.empty() ? nullptr : root_.find(nested_key_);
}

bool HuggingFaceConfig::ignore(std::string_view key) {
  Node* inner = nested_key_.empty() ? nullptr : root_.find(nested_key_);
  // The key is removed from both levels. The text model as a whole is never removed.
  const std::size_t count = erase(inner, key) + (key == nested_key_ ? 0 : erase(&root_, key));
  return count > 0;
}

std::vector<std::string_view> HuggingFaceConfig::keys() const {
  std::vector<std::string_view> keys;
  for (const Node* mapping : {nested(), &root_}) {
    if (mapping == nullptr) continue;
    std::ranges::transform(mapping->entries, std::back_inserter(keys),
                           [](const Node::Entry& entry) { return std::string_view(entry.key.text); });
  }
  return keys;
}

const Node* HuggingFaceConfig::value_of(std::string_view key) const {
  // The text model's own keys come first, because the root may have the same key for another part.
  for (const Node* mapping : {nested(), &root_}) {
    const Node* value = mapping == nullptr ? nullptr : mapping->find(key);
    if (value != nullptr && !is_null(*value)) return value;
  }
  return nullptr;
}

bool HuggingFaceConfig::has(std::string_view key) const { return value_of(key) != nullptr; }

const Node* HuggingFaceConfig::find(const KeyNames& names) {
  know(names);
  for (const std::string_view name : names) {
    if (const Node* value = value_of(name)) return value;
  }
  return nullptr;
}

void HuggingFaceConfig::know(const KeyNames& names) { read_.insert(names.begin(), names.end()); }

std::optional<std::int64_t> HuggingFaceConfig::size(const KeyNames& names, Range range) {
  const Node* value = find(names);
  if (value == nullptr) return std::nullopt;
  const auto size = integer_of(*value, range);
  if (!size) complain(*value, names.front(), size.error());
  // The least valid number lets the reading continue and find further errors.
  return size.value_or(range.least);
}

std::optional<std::int64_t> HuggingFaceConfig::size_if_any(const KeyNames& names, Range range) {
  const Node* value = find(names);
  return value == nullptr || is_off(*value) ? std::nullopt : size(names, range);
}

std::int64_t HuggingFaceConfig::required(const KeyNames& names, Range range) {
  const auto value = size(names, range);
  if (!value) complain(root_, "", fmt::format("expected {}, got nothing", fmt::join(names, " or ")));
  return value.value_or(1);
}

std::optional<bool> HuggingFaceConfig::flag(const KeyNames& names) {
  const Node* value = find(names);
  if (value == nullptr) return std::nullopt;
  if (value->kind == Node::Kind::scalar && (value->text == "true" || value->text == "True")) return true;
  if (value->kind == Node::Kind::scalar && (value->text == "false" || value->text == "False")) return false;
  complain(*value, names.front(), fmt::format("expected true or false, got {}", describe(*value)));
  return std::nullopt;
}

std::string HuggingFaceConfig::word(const KeyNames& names) {
  const Node* value = find(names);
  if (value == nullptr) return "";
  if (value->kind != Node::Kind::scalar)
    complain(*value, names.front(), fmt::format("expected a word, got {}", describe(*value)));
  return value->text;
}

std::vector<std::int64_t> HuggingFaceConfig::numbers(std::string_view key, Range range) {
  const Node* value = find({key});
  if (value == nullptr) return {};
  if (value->kind != Node::Kind::list)
    complain(*value, key, fmt::format("expected a list of whole numbers, got {}", describe(*value)));
  std::vector<std::int64_t> numbers;
  for (const Node& item : value->items) {
    const auto number = integer_of(item, range);
    if (!number) complain(item, key, number.error());
    numbers.push_back(number.value_or(range.least));
  }
  return numbers;
}

void HuggingFaceConfig::add_unpriced(const Node& node, std::string_view key, std::string_view detail) {
  noted_.push_back(
      {.place = &node, .key = std::string(key), .description = fmt::format("{} ({})", key, detail)});
}

std::vector<HuggingFaceConfig::Unread> HuggingFaceConfig::unread() const {
  std::vector<Unread> keys;
  // The text model's keys come first, because a message shows the place of the first key.
  const auto add_from = [&](const Node* mapping) {
    if (mapping == nullptr) return;
    for (const Node::Entry& entry : mapping->entries) {
      const std::string& key = entry.key.text;
      if (read_.contains(key) || is_off(entry.value) || is_without_price(key)) continue;
      // A mapping describes a part of the model. Single values next to a text model only describe how the
      // parts are combined, so they do not count.
      const bool is_outer = mapping == &root_ && !nested_key_.empty();
      const bool hints = entry.value.kind == Node::Kind::mapping || (!is_outer && hints_at_structure(key));
      keys.push_back({.key = &entry.key, .hints = hints});
    }
  };
  add_from(nested());
  add_from(&root_);
  return keys;
}

std::vector<UnpricedKey> HuggingFaceConfig::unpriced() const {
  std::vector<UnpricedKey> keys = noted_;
  for (const auto& [key, hints] : unread()) {
    if (hints) keys.push_back({.place = key, .key = key->text, .description = key->text});
  }
  return keys;
}

std::vector<std::string> HuggingFaceConfig::unknown() const {
  std::vector<std::string> keys;
  for (const auto& [key, hints] : unread()) {
    if (!hints) keys.push_back(key->text);
  }
  return keys;
}

void HuggingFaceConfig::complain(const Node& node, std::string_view key, std::string_view text) const {
  problem_->note(node, key, text);
}

void HuggingFaceConfig::complain(const KeyNames& names, std::string_view text) {
  const Node* value = find(names);
  complain(value != nullptr ? *value : root_, value != nullptr ? names.front() : "", text);
}

}  // namespace penstock
