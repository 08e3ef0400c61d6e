#pragma once
// The keys of a scenario file, one entry for each key. Each load_*.cpp file has the keys of its part. A
// MappingReader takes the known keys, ranges and words from them. docs/reference/scenario.md and
// docs/reference/scenario.schema.json are generated from them.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/numbers.hpp"

namespace penstock {

/// The form of a key's value.
enum class KeyKind : std::uint8_t {
  duration,   // such as "5 us"
  bytes,      // such as "16 MiB"
  limit,      // bytes, or "unlimited"
  bandwidth,  // such as "25 GB/s", or "unlimited"
  speed,      // a bandwidth without "unlimited"
  rate,       // floating-point operations a second: "312 TFLOP/s"
  factor,     // a number above 0 and at most `range.most`
  number,     // a number of at least 0
  integer,    // a whole number in `range`
  count,      // a whole number in `range`, or "unlimited"
  flag,       // true or false
  word,       // one of `words`
  name,       // a text that the user chooses
  names,      // a list of names
  file,       // the name of a file
  mapping,    // a mapping with its own keys
  mappings,   // a list of mappings with their own keys
  other,      // the form that the text `form` describes
};

/// The number of values that a key takes.
enum class KeyValues : std::uint8_t {
  one,
  stages,        // one for all stages, or a list with one for each stage
  microbatches,  // like `stages`, but each stage may have a list with one value for each microbatch
  list,          // a list of any length
};

/// One key of a mapping in a scenario.
struct Key {
  std::string_view name{};
  KeyKind kind = KeyKind::other;
  std::string_view meaning{};  ///< the meaning of the key, in one sentence
  /// The value if the key is absent, in words. "required" means that there is none.
  std::string_view usual{};
  Range range{.least = 1};                    ///< for the kinds integer, count and factor
  std::span<const std::string_view> words{};  ///< for the kind word
  KeyValues values = KeyValues::one;
  std::string_view form{};    ///< for the kind other, as the documentation shows it
  std::string_view schema{};  ///< for the kind other, the JSON Schema of the value
};

/// The keys of one form of a mapping.
struct KeyGroup {
  /// The path: "" for the file itself, "cluster", or "model.layers[]" for the entries of a list.
  std::string_view path{};
  /// The value that selects this form, such as "`preset: uniform`". Empty if the mapping has one form.
  std::string_view form{};
  std::string_view about{};  ///< paragraphs in Markdown; empty if the keys need none
  std::vector<Key> keys{};
};

/// Returns all keys of a scenario. A mapping comes before the mappings inside it.
std::vector<KeyGroup> scenario_keys();

/// Returns the keys of all lists in one list.
inline std::vector<Key> joined_keys(std::span<const std::span<const Key>> lists) {
  std::vector<Key> keys;
  for (const std::span<const Key> list : lists) keys.insert(keys.end(), list.begin(), list.end());
  return keys;
}

}  // namespace penstock
