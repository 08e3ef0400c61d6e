#pragma once
// Reads and writes the cells of CSV files from different releases of torch.distributed.pipelining.
// pytorch_csv.hpp reads and writes whole files.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/action.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// A dialect, with the name of the release that introduced it. The source is schedules.py of each release.
enum class CsvDialect : std::uint8_t {
  torch_2_4,  // F0_s1: kind, microbatch, stage; only F, B and W; a B whose file has its W means I
  torch_2_5,  // 1F0, 1B0, 1W0, 1BW0: a B whose file has its W means I, and BW is the full backward;
              // 0SEND_F1_0RECV_B0 for two messages at once; no REDUCE_GRAD and no overlapped pairs
  torch_2_6,  // 1F0, 1I0, 1W0, 1B0, (0F7;7B3)OVERLAP_F_B: 2.6 and later
};
template <>
inline constexpr auto kEnumWords<CsvDialect> =
    std::to_array<EnumWord<CsvDialect>>({{CsvDialect::torch_2_4, "torch-2.4"},
                                         {CsvDialect::torch_2_5, "torch-2.5"},
                                         {CsvDialect::torch_2_6, "torch-2.6"}});

/// Returns the dialect with a name such as "torch-2.5" or "2.5", or nothing if there is none.
std::optional<CsvDialect> csv_dialect_of_text(std::string_view text);

/// Returns the actions of a cell, or none if the cell is empty. Requires a cell without blanks around it. In
/// older dialects each B is returned as I, and halved_backwards() corrects this for the whole file. The error
/// says what was expected and what was found.
tl::expected<std::vector<Action>, std::string> read_csv_cell(std::string_view cell, CsvDialect dialect);

/// Returns the rows in which each I without a W of the same stage and microbatch is replaced by a B.
std::vector<std::vector<Action>> halved_backwards(std::vector<std::vector<Action>> rows);

/// Returns the cell of an action in an older dialect. `halves` is true if the program has I and W. The error
/// says why the dialect has no word for the action. Requires a dialect before torch_2_6.
tl::expected<std::string, std::string> old_csv_cell(const Action& action, CsvDialect dialect, bool halves);

}  // namespace penstock
