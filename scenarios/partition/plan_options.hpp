#pragma once
// The options of PipeDream's partitioner. A scenario states them in `partition:`, and `penstock plan` as
// flags. pipedream_partition.hpp uses them.

#include <array>
#include <cstdint>
#include <optional>

#include "schedules/ir/action.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The formula for a stage's time. T is forward + backward of a minibatch, W the bytes of weights, m the
/// number of replicas, and B the bytes a second. pipedream_levels.cpp has the formulas for several levels.
enum class PlanObjective : std::uint8_t {
  maximum,  // max(T/m, 2(m-1)W/(Bm^2)), and 2a/B for a cut of `a` bytes: 1F1B-RR's rings reduce once a round
  sum,      // (T + 4(m-1)W/(Bm)) / m, and 2a/(Bm) on both sides of a cut: the authors' released code
  maximum_printed,  // max(T, 2(m-1)W/B) / m, and 2a/B: as printed (PipeDream, SOSP'19, section 3.1), which
                    // reduces at every minibatch over one link
};
template <>
inline constexpr auto kEnumWords<PlanObjective> =
    std::to_array<EnumWord<PlanObjective>>({{PlanObjective::maximum, "maximum"},
                                            {PlanObjective::sum, "sum"},
                                            {PlanObjective::maximum_printed, "maximum-printed"}});

/// The form of a plan. Its stages may be replicated, or each stage has one device.
enum class PlanForm : std::uint8_t { replicated, straight };

/// The treatment of transfers between stages: the time of activations and gradients counts, or it does not.
enum class CutTransfers : std::uint8_t { counted, free };
template <>
inline constexpr auto kEnumWords<CutTransfers> =
    std::to_array<EnumWord<CutTransfers>>({{CutTransfers::counted, "counted"}, {CutTransfers::free, "free"}});

/// The options of a plan.
struct PlanOptions {
  PlanObjective objective = PlanObjective::maximum;
  PlanForm form = PlanForm::replicated;
  CutTransfers transfers = CutTransfers::counted;
  /// The memory limit of a device. If it is absent, the memory of the cluster's smallest device is the limit.
  std::optional<Bytes> memory_limit{};

  friend bool operator==(const PlanOptions&, const PlanOptions&) = default;
};

}  // namespace penstock
