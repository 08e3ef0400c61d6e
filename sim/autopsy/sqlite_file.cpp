// An SQLite file is a list of pages of one size. Each table is a tree of pages, whose leaves have the rows:
//
//   interior page   05, count, rightmost child, places of cells; a cell is a child page and a key
//   leaf page       0d, count, places of cells; a cell is a size, a key, a record and an overflow page
//   record          size of its head, a type for each column, the values
//
// Page 1 begins with the head of the file, and is the root of the table sqlite_schema, which has the other
// roots (https://www.sqlite.org/fileformat2.html). Files are untrusted: each place is checked before it is
// read, and a tree may not have more pages than the file. Tests: tests/sim/nsys_test.cpp.

#include "sim/autopsy/sqlite_file.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

namespace penstock {
namespace {

constexpr std::string_view kMagic{"SQLite format 3\0", 16};
constexpr std::size_t kFileHead = 100;
constexpr std::size_t kInteriorHead = 12;
constexpr std::size_t kLeafHead = 8;
constexpr std::uint64_t kLargestRecord = std::uint64_t{1} << 24U;
constexpr int kDeepestTree = 32;
const std::string kDamaged = "the SQLite file is damaged or cut";

/// Returns the number in the `count` bytes at a place, with the most significant byte first. Returns 0 if the
/// bytes go beyond the end.
std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t count) {
  if (at > bytes.size() || bytes.size() - at < count) return 0;
  std::uint64_t number = 0;
  for (const char byte : bytes.substr(at, count)) number = number << 8U | static_cast<unsigned char>(byte);
  return number;
}

/// Reads a number that is stored in one to nine bytes, and moves `at` behind it. Each byte has seven bits of
/// the number, but a ninth byte has eight. Returns nothing if the bytes end before the number does.
std::optional<std::uint64_t> varint_at(std::string_view bytes, std::size_t& at) {
  constexpr int kLast = 8;
  std::uint64_t number = 0;
  for (int i = 0; at < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    if (i == kLast) return number << 8U | byte;
    number = number << 7U | (byte & 0x7fU);
    if ((byte & 0x80U) == 0) return number;
  }
  return std::nullopt;
}

/// Returns the number of bytes of a value with this type.
std::uint64_t size_of_type(std::uint64_t type) {
  constexpr std::array<std::uint64_t, 12> kSizes = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0};
  return type < kSizes.size() ? kSizes.at(type) : (type - 12) / 2;
}

SqliteValue value_of(std::uint64_t type, std::string_view bytes) {
  constexpr std::uint64_t kReal = 7;
  constexpr std::uint64_t kZero = 8;
  constexpr std::uint64_t kOne = 9;
  constexpr std::uint64_t kFirstText = 13;
  if (type == kZero || type == kOne) return {.number = type == kOne ? 1 : 0};
  if (type >= kFirstText && type % 2 == 1) return {.text = std::string(bytes)};
  if (type == 0 || type >= kReal) return {};
  std::uint64_t number = number_at(bytes, 0, bytes.size());
  const bool is_negative = (static_cast<unsigned char>(bytes.front()) & 0x80U) != 0;
  if (is_negative && bytes.size() < sizeof number) number |= ~std::uint64_t{0} << 8 * bytes.size();
  return {.number = static_cast<std::int64_t>(number)};
}

/// Returns the values of a record, or nothing if the record is damaged.
std::optional<std::vector<SqliteValue>> values_of(std::string_view record) {
  std::size_t at = 0;
  const auto head = varint_at(record, at);
  if (!head || *head > record.size()) return std::nullopt;
  std::size_t value = *head;
  std::vector<SqliteValue> values;
  while (at < *head) {
    const auto type = varint_at(record, at);
    if (!type || size_of_type(*type) > record.size() - value) return std::nullopt;
    values.push_back(value_of(*type, record.substr(value, size_of_type(*type))));
    value += size_of_type(*type);
  }
  return values;
}

/// Returns SQL with blanks in place of comments.
std::string without_comments(std::string_view sql) {
  std::string plain;
  while (!sql.empty()) {
    const std::string_view end = sql.starts_with("--") ? "\n" : sql.starts_with("/*") ? "*/" : "";
    if (end.empty()) {
      plain += sql.front();
      sql.remove_prefix(1);
      continue;
    }
    plain += ' ';
    const std::size_t found = sql.find(end);
    sql.remove_prefix(found == std::string_view::npos ? sql.size() : found + end.size());
  }
  return plain;
}

/// Returns the words of a definition in capital letters, without quotation marks.
std::vector<std::string> words_of(std::string_view definition) {
  std::vector<std::string> words(1);
  for (const char c : definition) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isspace(byte) != 0 || c == '(' || c == ')') {
      if (!words.back().empty()) words.emplace_back();
    } else if (c != '"' && c != '`' && c != '[' && c != ']') {
      words.back() += static_cast<char>(std::toupper(byte));
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

/// Returns the definitions of columns and constraints in CREATE TABLE.
std::vector<std::string> definitions_of(std::string_view sql) {
  const std::string plain = without_comments(sql);
  std::vector<std::string> definitions;
  int depth = 0;
  for (const char c : plain) {
    if (c == ')') --depth;
    if (depth == 1 && c == ',') {
      definitions.emplace_back();
    } else if (depth >= 1 && !definitions.empty()) {
      definitions.back() += c;
    }
    if (c == '(' && ++depth == 1 && definitions.empty()) definitions.emplace_back();
    if (c == ')' && depth == 0) break;
  }
  return definitions;
}

std::string capital(std::string_view name) {
  std::string letters;
  for (const char c : name) letters += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return letters;
}

}  // namespace

bool is_sqlite(std::string_view bytes) { return bytes.starts_with(kMagic); }

SqliteFile::Table SqliteFile::table_of(std::uint32_t root, std::string_view sql) {
  constexpr std::array<std::string_view, 5> kConstraints = {"CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK",
                                                            "FOREIGN"};
  Table table{.root = root};
  for (const std::string& definition : definitions_of(sql)) {
    const std::vector<std::string> words = words_of(definition);
    if (words.empty() || std::ranges::find(kConstraints, words.front()) != kConstraints.end()) continue;
    if (words.size() > 1 && words[1] == "INTEGER" && std::ranges::find(words, "PRIMARY") != words.end())
      table.row_id = table.columns.size();
    table.columns.push_back(words.front());
  }
  return table;
}

tl::expected<SqliteFile, std::string> SqliteFile::open(std::string_view bytes) {
  constexpr std::size_t kPageSize = 16;
  constexpr std::size_t kReserved = 20;
  constexpr std::size_t kEncoding = 56;
  if (!is_sqlite(bytes) || bytes.size() < kFileHead) return tl::unexpected(kDamaged);
  SqliteFile file(bytes);
  const std::uint64_t size = number_at(bytes, kPageSize, 2);
  file.page_size_ = size == 1 ? 65536 : size;
  const std::uint64_t reserved = number_at(bytes, kReserved, 1);
  if (file.page_size_ < 512 || reserved + 480 > file.page_size_) return tl::unexpected(kDamaged);
  file.usable_ = file.page_size_ - reserved;
  if (number_at(bytes, kEncoding, 4) > 1)
    return tl::unexpected(std::string("expected texts in UTF-8, got UTF-16"));
  // The columns of sqlite_schema are type, name, tbl_name, rootpage and sql.
  const bool whole = file.walk(1, [&](std::int64_t, std::string_view record) {
    const auto values = values_of(record);
    if (!values || values->size() < 5) return false;
    const SqliteValue& name = (*values)[1];
    const SqliteValue& root = (*values)[3];
    const SqliteValue& sql = (*values)[4];
    if (values->front().text == "table" && name.text && root.number && sql.text)
      file.tables_.emplace(*name.text, table_of(static_cast<std::uint32_t>(*root.number), *sql.text));
    return true;
  });
  if (!whole) return tl::unexpected(kDamaged);
  return file;
}

tl::expected<void, std::string> SqliteFile::each_row(
    std::string_view table, std::span<const std::string_view> columns,
    const std::function<void(std::span<const SqliteValue>)>& take) const {
  const auto found = tables_.find(table);
  if (found == tables_.end()) return {};
  const Table& stored = found->second;
  std::vector<std::size_t> places;
  for (const std::string_view column : columns) {
    const auto place = std::ranges::find(stored.columns, capital(column));
    places.push_back(static_cast<std::size_t>(place - stored.columns.begin()));
  }
  std::vector<SqliteValue> taken(columns.size());
  const bool whole = walk(stored.root, [&](std::int64_t row_id, std::string_view record) {
    auto values = values_of(record);
    if (!values) return false;
    for (std::size_t i = 0; i < places.size(); ++i) {
      taken[i] = places[i] < values->size() ? (*values)[places[i]] : SqliteValue{};
      if (places[i] == stored.row_id) taken[i].number = row_id;
    }
    take(taken);
    return true;
  });
  if (!whole) return tl::unexpected(kDamaged);
  return {};
}

std::string_view SqliteFile::page(std::uint32_t number) const {
  if (number == 0 || number > bytes_.size() / page_size_) return {};
  return bytes_.substr((number - 1) * page_size_, page_size_);
}

bool SqliteFile::walk(std::uint32_t root, const TakeRecord& take) const {
  std::size_t pages = bytes_.size() / page_size_;
  return walk_page(root, 0, pages, take);
}

/// Visits the rows of a page and of the pages below it. `pages` is the number of pages that may still be
/// visited. Returns false if the file is damaged.
bool SqliteFile::walk_page(std::uint32_t number, int depth, std::size_t& pages,
                           const TakeRecord& take) const {
  constexpr std::uint64_t kInterior = 5;
  constexpr std::uint64_t kLeaf = 13;
  const std::string_view bytes = page(number);
  if (bytes.empty() || depth > kDeepestTree || pages-- == 0) return false;
  const std::size_t head = number == 1 ? kFileHead : 0;
  const std::uint64_t type = number_at(bytes, head, 1);
  if (type != kInterior && type != kLeaf) return false;
  const std::uint64_t cells = number_at(bytes, head + 3, 2);
  const std::size_t first = head + (type == kLeaf ? kLeafHead : kInteriorHead);
  for (std::uint64_t cell = 0; cell < cells; ++cell) {
    const auto at = static_cast<std::size_t>(number_at(bytes, first + 2 * cell, 2));
    const bool whole = type == kLeaf ? take_leaf_cell(bytes, at, pages, take)
                                     : walk_page(static_cast<std::uint32_t>(number_at(bytes, at, 4)),
                                                 depth + 1, pages, take);
    if (!whole) return false;
  }
  return type == kLeaf ||
         walk_page(static_cast<std::uint32_t>(number_at(bytes, head + 8, 4)), depth + 1, pages, take);
}

/// Joins the parts of a record, and passes the record to `take`. The first part is in the leaf page.
bool SqliteFile::take_leaf_cell(std::string_view page_bytes, std::size_t at, std::size_t& pages,
                                const TakeRecord& take) const {
  const auto size = varint_at(page_bytes, at);
  const auto row_id = varint_at(page_bytes, at);
  if (!size || !row_id || *size > kLargestRecord) return false;
  // These formulas of the file format give the number of bytes of a large record that stay in the leaf page.
  const std::size_t most = usable_ - 35;
  const std::size_t least = (usable_ - 12) * 32 / 255 - 23;
  std::size_t here = *size;
  if (here > most) {
    here = least + (*size - least) % (usable_ - 4);
    if (here > most) here = least;
  }
  if (at > page_bytes.size() || here > page_bytes.size() - at) return false;
  if (here == *size) return take(static_cast<std::int64_t>(*row_id), page_bytes.substr(at, here));
  std::string record(page_bytes.substr(at, here));
  auto next = static_cast<std::uint32_t>(number_at(page_bytes, at + here, 4));
  while (record.size() < *size) {
    const std::string_view more = page(next);
    if (more.empty() || pages-- == 0) return false;
    record += more.substr(4, std::min<std::size_t>(usable_ - 4, *size - record.size()));
    next = static_cast<std::uint32_t>(number_at(more, 0, 4));
  }
  return take(static_cast<std::int64_t>(*row_id), record);
}

}  // namespace penstock
