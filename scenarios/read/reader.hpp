#pragma once
// The tables of the keys of a scenario file, with one entry for each key. Each load_*.cpp file has the
// entries of its part. A MappingReader uses the keys, ranges and words of these entries.
// docs/reference/scenario.md and docs/reference/scenario.schema.json are generated from them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/read/document.hpp"
#include "schedules/ir/action.hpp"
#include "text/enum_words.hpp"
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
  word,       // one of Key::words
  name,       // a text that the user chooses
  names,      // a list of names
  file,       // the name of a file
  mapping,    // a mapping with its own keys
  mappings,   // a list of mappings with their own keys
  other,      // any other form, which Key::form describes
};

/// The number of values that a scenario key takes, for example one for each stage.
enum class KeyValues : std::uint8_t {
  one,
  stages,        // one for all stages, or a list with one for each stage
  microbatches,  // like `stages`, but each stage may have a list with one value a microbatch or slice
  list,          // a list of any length
};

/// The description of one key of a mapping in a scenario: its name, kind, meaning, default and allowed
/// values.
struct Key {
  std::string_view name{};
  KeyKind kind = KeyKind::other;
  std::string_view meaning{};  ///< the meaning of the key, in one sentence
  /// The default value in words, for documentation. "required" means that the key has no default.
  std::string_view usual{};
  Range range{.least = 1};  ///< if `kind` is KeyKind::integer, count or factor: the allowed values
  std::span<const std::string_view> words{};  ///< if `kind` is KeyKind::word: the allowed words
  KeyValues values = KeyValues::one;
  /// If `kind` is KeyKind::other: the form of the value, in words, for the documentation.
  std::string_view form{};
  std::string_view schema{};  ///< if `kind` is KeyKind::other: the JSON Schema of the value
};

/// The keys of one mapping in a scenario. If the mapping has several forms, each form has its own group.
struct KeyGroup {
  /// The path of the mapping: "" for the file itself, "cluster", or "model.layers[]" for the entries of a
  /// list.
  std::string_view path{};
  /// The value that selects this form of the mapping, such as "`preset: uniform`". Empty if the mapping has
  /// only one form.
  std::string_view form{};
  std::string_view about{};  ///< paragraphs in Markdown; empty if the keys need none
  std::vector<Key> keys{};
};

/// Returns the keys of all mappings of a scenario. A mapping comes before the mappings inside it.
std::vector<KeyGroup> scenario_keys();

/// Returns one list with the keys of all `lists`, in the same order.
inline std::vector<Key> joined_keys(std::span<const std::span<const Key>> lists) {
  std::vector<Key> keys;
  for (const std::span<const Key> list : lists) keys.insert(keys.end(), list.begin(), list.end());
  return keys;
}

// Limits of integers in several parts of the schema. Because of these limits, products of sizes fit in 128
// bits.

/// The range of a size of a model, such as a width, a number of heads, a sequence length or a vocabulary.
inline constexpr Range kModelSize{.least = 1, .most = 1 << 24};
/// The range of a number of layers, experts or blocks.
inline constexpr Range kModelCount{.least = 1, .most = 1 << 16};
/// The range of a degree of parallelism inside a layer: the number of devices that share the layer.
inline constexpr Range kParallelDegree{.least = 1, .most = 1 << 20};

// Reads the values of a mapping by key, with their units, and records errors in this form: "FILE:LINE:COLUMN:
// KEY.PATH: expected ..., got ...". The load_*.cpp files use it.

/// The errors in a document. After an error, reading continues as if the value were absent. So the code needs
/// no checks after each value, and all missing keys are reported at once.
class Problem {
 public:
  bool found() const { return !noted_.empty(); }
  std::size_t count() const { return noted_.size(); }
  /// Returns the first problems, one a line.
  std::string message() const;
  /// Records the error `PLACE: PATH: TEXT`. An equal error is recorded only once.
  void note(const Node& node, std::string_view path, std::string_view text);
  void note(std::string message);
  void note(const Problem& part);

 private:
  std::vector<std::string> messages_;  ///< the messages in the order in which they were recorded
  /// A copy of the recorded messages for fast look-up. It is needed because a wrong file may have an error
  /// in every line.
  std::unordered_set<std::string> noted_;
};

/// A reader of one mapping of a document. A function that reads a key returns nothing if the key is absent
/// or its value is wrong.
class MappingReader {
 public:
  /// Records a problem if `node` is not a mapping or has a key that is not in `keys`. The message suggests
  /// the most similar key and lists all keys. If several keys are unknown and none is known, only the first
  /// is reported, because the file probably is not a scenario. `node`, `keys` and `problem` must outlive the
  /// reader.
  MappingReader(const Node& node, std::string path, std::span<const Key> keys, Problem& problem);

  const Node& node() const { return *node_; }
  const Node* find(std::string_view key) const { return node_->find(key); }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  std::string path_of(std::string_view key) const;

  std::optional<Ns> duration(std::string_view key) const;
  std::optional<Bytes> bytes(std::string_view key) const;
  /// Reads bytes. Returns nothing for the word "unlimited".
  std::optional<Bytes> limit(std::string_view key) const;
  std::optional<double> bandwidth(std::string_view key) const;
  std::optional<double> flops(std::string_view key) const;
  /// Reads a whole number. The entry of the key in `keys` gives its range.
  std::optional<std::int64_t> integer(std::string_view key) const;
  /// Reads a whole number in `range`. It is for ranges that depend on other values.
  std::optional<std::int64_t> integer(std::string_view key, Range range) const;
  /// Reads a whole number. The entry of the key in `keys` gives its range. If the key is missing or its
  /// value is wrong, records a problem and returns 1.
  std::int64_t required_integer(std::string_view key) const;
  std::int64_t required_integer(std::string_view key, Range range) const;
  /// Reads the value of a key whose kind is a whole number: duration, bytes, integer or count.
  std::optional<std::int64_t> whole(const Key& key) const;
  /// Reads the value of a key whose kind is a real number: bandwidth, rate, factor or number. A duration is
  /// returned in ns, with fractions of a nanosecond.
  std::optional<double> real(const Key& key) const;
  /// Reads durations or bytes. Depending on its entry, the key accepts one value, a list with one value for
  /// each stage, or lists with one value for each microbatch.
  PerStage<std::int64_t> figures(const Key& key) const;
  /// Reads a switch: true, on or yes; false, off or no.
  std::optional<bool> flag(std::string_view key) const;
  /// Reads the text of any scalar.
  std::optional<std::string> word(std::string_view key) const;
  /// Reads a list of words.
  std::optional<std::vector<std::string>> words(std::string_view key) const;
  /// Reads one whole number or a list of them. The range is that of the key's entry, or `range`.
  std::vector<std::int32_t> integers(std::string_view key) const { return integers(key, row(key).range); }
  std::vector<std::int32_t> integers(std::string_view key, Range range) const;

  /// Reads a word and returns the value of the enum that it stands for. Accepts the words of the key's
  /// entry. If the entry has none, accepts all words of the enum.
  template <EnumWithWords Value>
  std::optional<Value> choice(std::string_view key) const {
    const auto word = choice_of(key, words_of<Value>());
    return word ? enum_of_text<Value>(*word) : std::nullopt;
  }
  /// Reads one of the words in the key's entry.
  std::optional<std::string_view> choice_word(std::string_view key) const { return choice_of(key, {}); }

  /// Records an error at the value of `key`. If the mapping does not have this key, records it at the
  /// mapping.
  void complain(std::string_view key, std::string_view text) const;

 private:
  template <typename Value, typename Parse>
  std::optional<Value> parsed(std::string_view key, Parse parse) const;
  template <typename Value, typename Parse>
  PerStage<Value> per_stage(std::string_view key, Parse parse) const;
  template <typename Value, typename Parse>
  PerStage<Value> per_microbatch(std::string_view key, Parse parse) const;
  /// Reads a key whose value is a list with one value for each slice of a microbatch.
  template <typename Value, typename Parse>
  PerStage<Value> per_slice(std::string_view key, Parse parse) const;
  template <typename Value, typename Parse>
  std::vector<Value> listed_values(const Node& list, const std::string& path, Parse parse) const;
  std::optional<std::string_view> choice_of(std::string_view key,
                                            std::span<const std::string_view> words) const;
  const Key& row(std::string_view key) const;

  const Node* node_;
  std::string path_;
  std::span<const Key> keys_;
  Problem* problem_;
};

/// Returns the whole number that a scalar contains. Returns an error such as "expected a whole number from
/// 1 to 8, got ..." if it is not in `range`.
tl::expected<std::int64_t, std::string> integer_of(const Node& node, Range range);

/// Returns the words as an enumeration, such as "name, stages, microbatches".
std::string listed(std::span<const std::string_view> words);

}  // namespace penstock
