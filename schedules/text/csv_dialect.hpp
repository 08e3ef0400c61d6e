#pragma once
// The spellings that torch.distributed.pipelining has had for a cell of its CSV. pytorch_csv.hpp reads and
// writes whole files.

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

/// Named after the release that has it; schedules.py of each is the source.
enum class CsvDialect : std::uint8_t {
  torch_2_4,  // F0_s1: kind, microbatch, stage; only F, B and W, whose B is I where a W follows
  torch_2_5,  // 1F0, 1B0, 1W0, 1BW0: B is I where a W follows, BW the full backward beside halves;
              // 0SEND_F1_0RECV_B0 for two messages at once; no REDUCE_GRAD and no overlapped pairs
  torch_2_6,  // 1F0, 1I0, 1W0, 1B0, (0F7;7B3)OVERLAP_F_B: 2.6 and later
};
template <>
inline constexpr auto kEnumWords<CsvDialect> =
    std::to_array<EnumWord<CsvDialect>>({{CsvDialect::torch_2_4, "torch-2.4"},
                                         {CsvDialect::torch_2_5, "torch-2.5"},
                                         {CsvDialect::torch_2_6, "torch-2.6"}});

/// Returns the dialect of a word, with or without "torch-" in front: "torch-2.5" or "2.5".
std::optional<CsvDialect> csv_dialect_of_text(std::string_view text);

/// The actions of one cell without blanks around it; none where it is empty. In the older dialects a B comes
/// back as I, until halved_backwards() has seen the whole file. Error: what was expected, what was found.
tl::expected<std::vector<Action>, std::string> read_csv_cell(std::string_view cell, CsvDialect dialect);

/// The rows with each I that no W of its stage and microbatch follows as the full backward B.
std::vector<std::vector<Action>> halved_backwards(std::vector<std::vector<Action>> rows);

/// One action in an older dialect; `halves` says that the program has I and W. Error: why there is no word
/// for it. Requires a dialect before torch_2_6.
tl::expected<std::string, std::string> old_csv_cell(const Action& action, CsvDialect dialect, bool halves);

}  // namespace penstock
