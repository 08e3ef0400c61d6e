#pragma once
// Reads the values of a document's mapping by key, with their units, and says what is wrong with them:
// "FILE:LINE:COLUMN: KEY.PATH: expected ..., got ...". The load_*.cpp files state the schema with it.

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

/// What is wrong with a document; reading goes on after it with nothing found, so that the schema reads as a
/// list and not as a ladder of checks, and that all keys which are missing are said at once.
class Problem {
 public:
  bool found() const { return !noted_.empty(); }
  std::size_t count() const { return noted_.size(); }
  /// A line each, the first few of them.
  std::string message() const;
  /// Notes `PLACE: PATH: TEXT`; once where it is noted twice.
  void note(const Node& node, std::string_view path, std::string_view text);
  void note(std::string message);
  void note(const Problem& part);

 private:
  std::vector<std::string> messages_;      ///< in the order of noting
  std::unordered_set<std::string> noted_;  ///< the same, to be found: a wrong file may have one a line
};

/// One mapping of a document. Every read of an absent key gives nothing.
class MappingReader {
 public:
  /// Notes a problem if `node` is no mapping or has a key that is not among `keys`; the message offers the
  /// key that was likely meant and lists them all. If all of several keys are unknown only the first is
  /// shown: the file is of another kind then. `node`, `keys` and `problem` must outlive the reader.
  MappingReader(const Node& node, std::string path, std::span<const Key> keys, Problem& problem);

  const Node& node() const { return *node_; }
  const Node* find(std::string_view key) const { return node_->find(key); }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  std::string path_of(std::string_view key) const;

  std::optional<Ns> duration(std::string_view key) const;
  std::optional<Bytes> bytes(std::string_view key) const;
  /// Bytes, or the word "unlimited", which is nothing.
  std::optional<Bytes> limit(std::string_view key) const;
  std::optional<double> bandwidth(std::string_view key) const;
  std::optional<double> flops(std::string_view key) const;
  /// Reads a whole number in the range of its row.
  std::optional<std::int64_t> integer(std::string_view key) const;
  /// Reads a whole number in a range that depends on other values.
  std::optional<std::int64_t> integer(std::string_view key, Range range) const;
  /// Reads a whole number in the range of its row. A missing key is a problem. Returns 1 after a problem.
  std::int64_t required_integer(std::string_view key) const;
  std::int64_t required_integer(std::string_view key, Range range) const;
  /// Reads the value of a key whose kind is a whole number: duration, bytes, integer or count.
  std::optional<std::int64_t> whole(const Key& key) const;
  /// Reads the value of a key whose kind is a real number: bandwidth, rate, factor or number.
  std::optional<double> real(const Key& key) const;
  /// Reads durations or bytes, for all stages or by stage or microbatch as the row says.
  PerStage<std::int64_t> figures(const Key& key) const;
  /// true, on, yes / false, off, no.
  std::optional<bool> flag(std::string_view key) const;
  /// Any scalar.
  std::optional<std::string> word(std::string_view key) const;
  /// A list of words.
  std::optional<std::vector<std::string>> words(std::string_view key) const;
  /// Reads one integer or a list of them, in the range of the row or in another one.
  std::vector<std::int32_t> integers(std::string_view key) const { return integers(key, row(key).range); }
  std::vector<std::int32_t> integers(std::string_view key, Range range) const;

  /// Reads the word of an enum's value. Accepts the words of the row, or all of the enum's if it has none.
  template <EnumWithWords Value>
  std::optional<Value> choice(std::string_view key) const {
    const auto word = choice_of(key, words_of<Value>());
    return word ? enum_of_text<Value>(*word) : std::nullopt;
  }
  /// Reads one of the words of the row.
  std::optional<std::string_view> choice_word(std::string_view key) const { return choice_of(key, {}); }

  /// Notes a problem with the value of `key`, or with the mapping when it has no such key.
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

/// The integer that a scalar spells. Errors: "expected a whole number from 1 to 8, got ..."
tl::expected<std::int64_t, std::string> integer_of(const Node& node, Range range);

/// Returns "name, stages, microbatches".
std::string listed(std::span<const std::string_view> words);

}  // namespace penstock
