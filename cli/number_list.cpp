// Reads lists such as "1,2,4..16" from left to right. The numbers before ".." determine how the list
// continues. If the last three numbers have a common ratio, the list continues with this ratio. Otherwise it
// continues with the difference of the last two numbers. A single number continues with the difference 1:
//
//     next = number * factor + step        1,2,4..16 -> factor 2, step 0        1,3..9 -> factor 1, step 2
//
// Tests: tests/cli/input_test.cpp.

#include "cli/flags.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "cli/outcome.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

constexpr std::string_view kForm = "expected numbers such as 4, 1..16 or 1,2,4..128";
constexpr std::size_t kMostNumbers = 100'000;

using NumberList = std::vector<std::int64_t>;

/// The rule that gives the next number of a list such as "2,4..32": the number before it times a factor, plus
/// a step.
struct Progression {
  std::int64_t factor = 1;
  std::int64_t step = 1;

  std::int64_t after(std::int64_t number) const { return number * factor + step; }
};

/// Returns the rule by which the list `before` continues. The list must not be empty. The rule multiplies
/// only if the ratio is a whole number above 1. Therefore "4,6,9..16" continues by adding 3. Products of
/// two numbers stay below 2^62.
Progression progression_of(const NumberList& before) {
  const std::size_t count = before.size();
  if (count == 1) return {};
  const std::int64_t last = before[count - 1];
  const std::int64_t second_last = before[count - 2];
  if (count >= 3) {
    const std::int64_t third_last = before[count - 3];
    const bool common_ratio = second_last * second_last == third_last * last && last % second_last == 0;
    if (common_ratio && last > second_last) return {.factor = last / second_last, .step = 0};
  }
  return {.factor = 1, .step = last - second_last};
}

/// A reader that reads a list of numbers from left to right.
class ListReader {
 public:
  ListReader(std::string_view text, std::int32_t least) : rest_(text), text_(text), least_(least) {}

  tl::expected<NumberList, std::string> read() {
    if (auto first = append_number(); !first) return tl::unexpected(first.error());
    while (!rest_.empty()) {
      const bool comma = take(",");
      const bool range = take("..");
      if (range) take(",");  // "4,..,16" means "4..16"
      if (!comma && !range) return fault();
      if (auto item = range ? append_range() : append_number(); !item) return tl::unexpected(item.error());
    }
    return numbers_;
  }

 private:
  /// Returns an error that says what the reader expected at the present position.
  tl::unexpected<std::string> fault() const {
    const std::string found = rest_.empty() ? "the end" : fmt::format("\"{}\"", rest_);
    return tl::unexpected(fmt::format("\"{}\": {}, got {}", text_, kForm, found));
  }

  /// If the rest of the text begins with `word`, skips the word and returns true. Otherwise returns false.
  bool take(std::string_view word) {
    const bool found = rest_.starts_with(word);
    if (found) rest_.remove_prefix(word.size());
    return found;
  }

  /// Reads the number at the present position. If it is negative or too large, the error message shows all
  /// of its characters.
  tl::expected<std::int64_t, std::string> number() {
    const auto number = leading_number<std::int32_t>(rest_);
    if (number.spelling.empty()) return fault();
    if (!number.value || *number.value < least_) {
      return tl::unexpected(fmt::format("\"{}\": expected numbers from {} to 2147483647, got {}", text_,
                                        least_, number.spelling));
    }
    rest_.remove_prefix(number.spelling.size());
    return *number.value;
  }

  tl::expected<void, std::string> append_number() {
    const auto value = number();
    if (!value) return tl::unexpected(value.error());
    numbers_.push_back(*value);
    return {};
  }

  /// Reads the number after "..", and appends all numbers up to it.
  tl::expected<void, std::string> append_range() {
    const auto last = number();
    if (!last) return tl::unexpected(last.error());
    const std::int64_t before = numbers_.back();
    const Progression progression = progression_of(numbers_);
    // It is an error if the end is smaller than the number before "..", or if the numbers do not increase.
    if (*last < before || progression.after(before) <= before) {
      return tl::unexpected(fmt::format("\"{}\": a range goes up, but {} comes after {}", text_,
                                        *last < before ? *last : before,
                                        *last < before ? before : numbers_[numbers_.size() - 2]));
    }
    for (std::int64_t next = progression.after(before); next <= *last; next = progression.after(next)) {
      if (numbers_.size() == kMostNumbers) {
        return tl::unexpected(fmt::format("\"{}\": more than {} numbers; take fewer", text_, kMostNumbers));
      }
      numbers_.push_back(next);
    }
    return {};
  }

  std::string_view rest_;
  std::string_view text_;
  std::int32_t least_;
  NumberList numbers_;
};

}  // namespace

tl::expected<std::vector<std::int32_t>, std::string> parse_number_list(std::string_view text,
                                                                       std::int32_t least) {
  auto numbers = ListReader(text, least).read();
  if (!numbers) return tl::unexpected(numbers.error());
  std::ranges::sort(*numbers);
  const auto repeated = std::ranges::unique(*numbers);
  numbers->erase(repeated.begin(), repeated.end());
  std::vector<std::int32_t> list;
  for (const std::int64_t number : *numbers) list.push_back(static_cast<std::int32_t>(number));
  return list;
}

tl::expected<std::vector<std::int32_t>, UserError> numbers_of_flag(std::string_view flag,
                                                                   const std::string& text,
                                                                   std::int32_t least) {
  if (text.empty()) return std::vector<std::int32_t>{};
  auto numbers = parse_number_list(text, least);
  if (!numbers) return bad_input(fmt::format("{} {}", flag, numbers.error()));
  return *std::move(numbers);
}

}  // namespace penstock
