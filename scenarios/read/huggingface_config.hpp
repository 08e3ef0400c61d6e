#pragma once
// A Hugging Face config.json as a mapping that records which keys were read, so that no key is ignored by
// mistake. load_architecture.hpp turns it into an Architecture.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/read/document.hpp"
#include "scenarios/read/reader.hpp"

namespace penstock {

/// The names of one figure in different families, the most common one first.
using KeyNames = std::vector<std::string_view>;

/// A part of the configuration whose cost cannot be computed.
struct UnpricedKey {
  const Node* place = nullptr;
  std::string key;
  std::string description;  ///< the key and the reason: "layer_types (linear_attention)"
};

/// The mapping of a configuration. If it contains a text model (`text_config`), the keys of that model take
/// precedence. Every read marks its keys as read. Null counts as no value.
class HuggingFaceConfig {
 public:
  /// Requires that `root` is a mapping and that `problem` outlives this object.
  HuggingFaceConfig(Node root, Problem& problem);

  /// Removes the key. Returns false if there was none.
  bool ignore(std::string_view key);
  /// Returns all keys, for messages.
  std::vector<std::string_view> keys() const;

  /// Returns true if the key has a value. Does not mark the key as read.
  bool has(std::string_view key) const;
  /// Returns the value of the first name that has one, or null if none has.
  const Node* find(const KeyNames& names);
  std::optional<std::int64_t> size(const KeyNames& names, Range range);
  /// Like size(), but returns nothing for 0 and false, which mean none.
  std::optional<std::int64_t> size_if_any(const KeyNames& names, Range range);
  /// Returns the size. If it is absent, notes a problem and returns 1.
  std::int64_t required(const KeyNames& names, Range range);
  std::optional<bool> flag(const KeyNames& names);
  /// Returns a word, or an empty text if the key is absent.
  std::string word(const KeyNames& names);
  /// Returns whole numbers, or an empty list if the key is absent.
  std::vector<std::int64_t> numbers(std::string_view key, Range range);
  /// Marks the keys as read, because they have no effect on this model.
  void know(const KeyNames& names);

  /// Notes a part without a price. `node` is the value of `key`.
  void add_unpriced(const Node& node, std::string_view key, std::string_view detail);
  /// Returns the noted parts, and unread keys that hint at structure, such as all mappings.
  std::vector<UnpricedKey> unpriced() const;
  /// Returns unread keys that are switched on and do not hint at structure.
  std::vector<std::string> unknown() const;

  const Node& root() const { return root_; }
  /// Notes a problem at `node`, the value of `key`. The second form notes it at the value of `names`, or at
  /// the whole mapping if none of them has a value.
  void complain(const Node& node, std::string_view key, std::string_view text) const;
  void complain(const KeyNames& names, std::string_view text);

 private:
  /// A key that is not read and that is switched on.
  struct Unread {
    const Node* key = nullptr;
    bool hints = false;  ///< true if the key hints at structure
  };

  const Node* nested() const;
  /// Returns the value of the key, or null if it is absent or null.
  const Node* value_of(std::string_view key) const;
  std::vector<Unread> unread() const;

  Node root_;
  std::string nested_key_;  ///< empty if only the root has keys
  std::set<std::string, std::less<>> read_;
  std::vector<UnpricedKey> noted_;
  Problem* problem_;
};

/// Returns true for values that mean "switched off": null, false, 0, "none", and empty lists and mappings.
bool is_off(const Node& value);

}  // namespace penstock
