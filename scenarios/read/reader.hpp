#pragma once
// Reads the values of a mapping by key, with their units, and notes what is wrong: "FILE:LINE:COLUMN:
// KEY.PATH: expected ..., got ...". The load_*.cpp files use it to state the schema.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/keys.hpp"
#include "schedules/ir/action.hpp"
#include "text/enum_words.hpp"
#include "text/numbers.hpp"

namespace penstock {

/// The problems of a document. After a problem, reading continues as if the value were absent. The reading
/// code then needs no checks, and all missing keys are reported at once.
class Problem {
 public:
  bool found() const { return !noted_.empty(); }
  std::size_t count() const { return noted_.size(); }
  /// Returns the first problems, one a line.
  std::string message() const;
  /// Notes `PLACE: PATH: TEXT`. A repeated problem counts once.
  void note(const Node& node, std::string_view path, std::string_view text);
  void note(std::string message);
  void note(const Problem& part);

 private:
  std::vector<std::string> messages_;  ///< the messages in the order of noting
  /// The same messages for look-up, because a wrong file may have a problem in every line.
  std::unordered_set<std::string> noted_;
};

/// One mapping of a document. For an absent key every read returns nothing.
class MappingReader {
 public:
  /// Notes a problem if `node` is not a mapping or has a key that is not in `keys`. The message suggests the
  /// most similar key and lists all keys. If several keys are unknown and none is known, only the first is
  /// reported, because the file is then of another kind. `node`, `keys` and `problem` must outlive the
  /// reader.
  MappingReader(const Node& node, std::string path, std::span<const Key> keys, Problem& problem);

  const Node& node() const { return *node_; }
  const Node* find(std::string_view key) const { return node_->find(key); }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  std::string path_of(std::string_view key) const;

  std::optional<Ns> duration(std::string_view key) const;
  std::optional<Bytes> bytes(std::string_view key) const;
  /// Reads bytes. The word "unlimited" gives nothing.
  std::optional<Bytes> limit(std::string_view key) const;
  std::optional<double> bandwidth(std::string_view key) const;
  std::optional<double> flops(std::string_view key) const;
  /// Reads a whole number in the range of the key's entry.
  std::optional<std::int64_t> integer(std::string_view key) const;
  /// Reads a whole number in a range that depends on other values.
  std::optional<std::int64_t> integer(std::string_view key, Range range) const;
  /// Reads a whole number in the range of the key's entry. A missing key is a problem. Returns 1 after a
  /// problem.
  std::int64_t required_integer(std::string_view key) const;
  std::int64_t required_integer(std::string_view key, Range range) const;
  /// Reads the value of a key whose kind is a whole number: duration, bytes, integer or count.
  std::optional<std::int64_t> whole(const Key& key) const;
  /// Reads the value of a key whose kind is a real number: bandwidth, rate, factor or number.
  std::optional<double> real(const Key& key) const;
  /// Reads durations or bytes, for all stages, by stage, or by microbatch, as the key's entry allows.
  PerStage<std::int64_t> figures(const Key& key) const;
  /// Reads true, on or yes, and false, off or no.
  std::optional<bool> flag(std::string_view key) const;
  /// Reads the text of any scalar.
  std::optional<std::string> word(std::string_view key) const;
  /// Reads a list of words.
  std::optional<std::vector<std::string>> words(std::string_view key) const;
  /// Reads one integer or a list of integers, in the range of the key's entry or in `range`.
  std::vector<std::int32_t> integers(std::string_view key) const { return integers(key, row(key).range); }
  std::vector<std::int32_t> integers(std::string_view key, Range range) const;

  /// Reads a word and returns the enum's value. Accepts the words of the key's entry, or all words of the
  /// enum if the entry has none.
  template <EnumWithWords Value>
  std::optional<Value> choice(std::string_view key) const {
    const auto word = choice_of(key, words_of<Value>());
    return word ? enum_of_text<Value>(*word) : std::nullopt;
  }
  /// Reads one of the words in the key's entry.
  std::optional<std::string_view> choice_word(std::string_view key) const { return choice_of(key, {}); }

  /// Notes a problem at the value of `key`, or at the mapping if it has no such key.
  void complain(std::string_view key, std::string_view text) const;

 private:
  template <typename Value, typename Parse>
  std::optional<Value> parsed(std::string_view key, Parse parse) const;
  template <typename Value, typename Parse>
  PerStage<Value> per_stage(std::string_view key, Parse parse) const;
  template <typename Value, typename Parse>
  PerStage<Value> per_microbatch(std::string_view key, Parse parse) const;
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

/// Returns the integer in a scalar. Errors: "expected a whole number from 1 to 8, got ..."
tl::expected<std::int64_t, std::string> integer_of(const Node& node, Range range);

/// Returns the words as a list, such as "name, stages, microbatches".
std::string listed(std::span<const std::string_view> words);

}  // namespace penstock
