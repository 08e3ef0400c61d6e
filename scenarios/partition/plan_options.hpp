#pragma once
// What PipeDream's partitioner is asked for. Read from `partition:`, given by the flags of `penstock plan`,
// used by pipedream_partition.hpp.

#include <array>
#include <cstdint>
#include <optional>

#include "schedules/ir/action.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// How a stage's compute and gradient reduction make up its time. T: forward + backward of a minibatch; W:
/// bytes of weights; m replicas; B: bytes a second. On several levels: pipedream_levels.cpp.
enum class PlanObjective : std::uint8_t {
  maximum,  // max(T/m, 2(m-1)W/(Bm^2)), a cut of `a` bytes 2a/B: what 1F1B-RR's rings reduce once a round
  sum,      // (T + 4(m-1)W/(Bm)) / m, 2a/(Bm) on both sides of a cut: as the authors' released code has it
  maximum_printed,  // max(T, 2(m-1)W/B) / m, 2a/B: as printed (PipeDream, SOSP'19, section 3.1), which
                    // reduces at every minibatch, and over one link
};
template <>
inline constexpr auto kEnumWords<PlanObjective> =
    std::to_array<EnumWord<PlanObjective>>({{PlanObjective::maximum, "maximum"},
                                            {PlanObjective::sum, "sum"},
                                            {PlanObjective::maximum_printed, "maximum-printed"}});

/// Whether a stage may be replicated.
enum class PlanForm : std::uint8_t { replicated, straight };

/// Whether activations and their gradients take time to cross a cut.
enum class CutTransfers : std::uint8_t { counted, free };
template <>
inline constexpr auto kEnumWords<CutTransfers> =
    std::to_array<EnumWord<CutTransfers>>({{CutTransfers::counted, "counted"}, {CutTransfers::free, "free"}});

struct PlanOptions {
  PlanObjective objective = PlanObjective::maximum;
  PlanForm form = PlanForm::replicated;
  CutTransfers transfers = CutTransfers::counted;
  std::optional<Bytes> memory_limit{};  ///< of a device; absent: what the cluster's smallest device has

  friend bool operator==(const PlanOptions&, const PlanOptions&) = default;
};

}  // namespace penstock
