#pragma once
// A figure of each of many configurations: those of one program side by side, programs on all cores.

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

/// step_times or peak_bytes.
using FiguresOfProgram = std::vector<std::int64_t> (*)(const TunedProgram&,
                                                       std::span<const PricedConfiguration>);

/// In the order of the configurations. None at all where `stopped`, if there is one, becomes true before.
/// Error: that of ProgramLibrary::program().
tl::expected<std::vector<std::int64_t>, std::string> figures_of_all(std::vector<AskedConfiguration> asked,
                                                                    std::shared_ptr<ProgramLibrary> programs,
                                                                    FiguresOfProgram figures_of,
                                                                    const std::function<bool()>& stopped);

}  // namespace penstock
