#pragma once
// Computes one figure for each of many configurations. Configurations of one program run side by side, and
// programs run on all cores.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "sim/tuning/configuration.hpp"
#include "sim/tuning/configuration_prices.hpp"
#include "sim/tuning/program_library.hpp"

namespace penstock {

struct AskedConfiguration {
  Configuration configuration;
  PricedConfiguration priced;
};

/// A function that computes the figure: step_times or peak_bytes.
using FiguresOfProgram = std::vector<std::int64_t> (*)(const TunedProgram&,
                                                       std::span<const PricedConfiguration>);

/// Returns the figures in the order of the configurations. Returns an empty list if `stopped` is given and
/// becomes true before the end. Error: that of ProgramLibrary::program().
tl::expected<std::vector<std::int64_t>, std::string> figures_of_all(std::vector<AskedConfiguration> asked,
                                                                    std::shared_ptr<ProgramLibrary> programs,
                                                                    FiguresOfProgram figures_of,
                                                                    const std::function<bool()>& stopped);

}  // namespace penstock
