#pragma once
// Reads the tables of an SQLite file, row by row. SQL is not needed for that, so the program needs no
// library.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

namespace penstock {

/// The value of a column in a row: a whole number or a text. A number that is not whole has neither of the
/// two.
struct SqliteValue {
  std::optional<std::int64_t> number{};
  std::optional<std::string> text{};
};

/// Returns true if a file begins as SQLite files do.
bool is_sqlite(std::string_view bytes);

/// The tables of an SQLite file. Indexes, views and a write-ahead log beside the file are not read.
class SqliteFile {
 public:
  /// Reads the names and columns of the tables. `bytes` must outlive the object. The error says what is wrong
  /// with the file.
  static tl::expected<SqliteFile, std::string> open(std::string_view bytes);

  bool has(std::string_view table) const { return tables_.contains(table); }

  /// Calls `take` with the values of the named columns in each row of a table. A column that the table does
  /// not have has no values. A table that does not exist has no rows. The error says that the file is
  /// damaged.
  tl::expected<void, std::string> each_row(
      std::string_view table, std::span<const std::string_view> columns,
      const std::function<void(std::span<const SqliteValue>)>& take) const;

 private:
  /// A table: its root page and its columns. The column `row_id` is stored as the key of the row.
  struct Table {
    std::uint32_t root = 0;
    std::vector<std::string> columns{};
    std::optional<std::size_t> row_id{};
  };
  using TakeRecord = std::function<bool(std::int64_t row_id, std::string_view record)>;

  explicit SqliteFile(std::string_view bytes) : bytes_(bytes) {}

  static Table table_of(std::uint32_t root, std::string_view sql);
  std::string_view page(std::uint32_t number) const;
  bool walk(std::uint32_t root, const TakeRecord& take) const;
  bool walk_page(std::uint32_t number, int depth, std::size_t& pages, const TakeRecord& take) const;
  bool take_leaf_cell(std::string_view page_bytes, std::size_t at, std::size_t& pages,
                      const TakeRecord& take) const;

  std::string_view bytes_;
  std::size_t page_size_ = 0;
  std::size_t usable_ = 0;  ///< the bytes of a page that SQLite uses
  std::map<std::string, Table, std::less<>> tables_{};
};

}  // namespace penstock
