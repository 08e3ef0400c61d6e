#pragma once
// Times and peaks of configurations, by the tape of their program.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/configuration_prices.hpp"
#include "sim/tuning/program_library.hpp"

namespace penstock {

/// The steps of configurations of one program, as simulate() says them; several at once where there are.
std::vector<Ns> step_times(const TunedProgram& program, std::span<const PricedConfiguration> priced);

/// The peak of its fullest rank, as simulate() says it.
Bytes peak_bytes(const TunedProgram& program, const PricedConfiguration& priced);
std::vector<Bytes> peaks_of(const TunedProgram& program, std::span<const PricedConfiguration> priced);

struct AskedConfiguration {
  Configuration configuration;
  PricedConfiguration priced;
};

/// step_times or peaks_of.
using FiguresOfProgram = std::vector<std::int64_t> (*)(const TunedProgram&,
                                                       std::span<const PricedConfiguration>);

/// A figure of each configuration, in their order: those of one program side by side, programs on all cores.
/// None at all where `stopped`, if there is one, becomes true before. Error: that of
/// ProgramLibrary::program().
tl::expected<std::vector<std::int64_t>, std::string> figures_of_all(std::vector<AskedConfiguration> asked,
                                                                    std::shared_ptr<ProgramLibrary> programs,
                                                                    FiguresOfProgram figures_of,
                                                                    const std::function<bool()>& stopped);

}  // namespace penstock
