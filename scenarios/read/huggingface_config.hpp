#pragma once
// A Hugging Face config.json as a mapping that remembers what was asked of it, so that nothing in it is
// passed over unseen. Read into an Architecture by load_architecture.hpp.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/read/document.hpp"
#include "scenarios/read/reader.hpp"

namespace penstock {

/// The names that one figure has in different families, the usual one first.
using KeyNames = std::vector<std::string_view>;

/// A part of the configuration that has no price.
struct UnpricedKey {
  const Node* place = nullptr;
  std::string key;
  std::string description;  ///< the key, and what about it: "layer_types (linear_attention)"
};

/// The mapping, with the text model's own (`text_config`) before it where there is one. Every question marks
/// its keys as read; null is as good as no value.
class HuggingFaceConfig {
 public:
  /// `root` is a mapping; `problem` must outlive this.
  HuggingFaceConfig(Node root, Problem& problem);

  /// Takes the key out. False: there was none.
  bool ignore(std::string_view key);
  /// All keys, for messages.
  std::vector<std::string_view> keys() const;

  /// True where the key has a value. Marks nothing.
  bool has(std::string_view key) const;
  /// The value of the first of the names that has one.
  const Node* find(const KeyNames& names);
  std::optional<std::int64_t> size(const KeyNames& names, Range range);
  /// The same, where 0 and false mean none.
  std::optional<std::int64_t> size_if_any(const KeyNames& names, Range range);
  /// Notes a problem where there is none, and gives 1.
  std::int64_t required(const KeyNames& names, Range range);
  std::optional<bool> flag(const KeyNames& names);
  /// Empty: not given.
  std::string word(const KeyNames& names);
  /// Whole numbers; empty: not given.
  std::vector<std::int64_t> numbers(std::string_view key, Range range);
  /// Nothing is asked of these now.
  void know(const KeyNames& names);

  /// Notes a part without a price at `node`, the value of `key`.
  void add_unpriced(const Node& node, std::string_view key, std::string_view detail);
  /// Those that were noted, and keys that nothing has read and that hint at structure, as any mapping does.
  std::vector<UnpricedKey> unpriced() const;
  /// Keys that nothing has read, that are switched on, and that hint at nothing.
  std::vector<std::string> unknown() const;

  const Node& root() const { return root_; }
  /// Notes a problem at `node`, the value of `key`; or at the value that the names have, the whole where none
  /// has.
  void complain(const Node& node, std::string_view key, std::string_view text) const;
  void complain(const KeyNames& names, std::string_view text);

 private:
  /// A key that nothing has read and that is switched on.
  struct Unread {
    const Node* key = nullptr;
    bool hints = false;  ///< at structure
  };

  const Node* nested() const;
  /// Null: there is none, or it is null.
  const Node* value_of(std::string_view key) const;
  std::vector<Unread> unread() const;

  Node root_;
  std::string nested_key_;  ///< empty: the root is all there is
  std::set<std::string, std::less<>> read_;
  std::vector<UnpricedKey> noted_;
  Problem* problem_;
};

/// True of null, false, 0, "none" and empty lists and mappings: what is switched off.
bool is_off(const Node& value);

}  // namespace penstock
