#pragma once
// Makes requests for searches of configurations, for tests.

#include <cstdint>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "report/result/result.hpp"
#include "scenarios/read/load.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/tune.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/test_files.hpp"

namespace penstock {

/// A model with eight layers on one node with eight devices.
inline constexpr std::string_view kTunedLlama = R"(
model: {huggingface: llama-3.1-70b.json, sequence: 4096, layers: 8}
cluster: {device: h100-sxm}
)";
inline constexpr std::string_view kTunedMixtral = R"(
model: {huggingface: mixtral-8x22b.json, sequence: 4096, layers: 6}
cluster: {device: h100-sxm}
)";

inline TuneRequest tune_request(std::string_view scenario, std::int64_t global_batch_size) {
  auto base = parse_scenario(scenario, "test.yaml", source_path("tests/scenarios/configs"));
  EXPECT_TRUE(base) << base.error();
  TuneRequest request;
  request.base = *base;
  request.global_batch_size = global_batch_size;
  return request;
}

inline Result simulated_configuration(const TuneRequest& request, const Configuration& configuration) {
  SimulateOptions options;
  options.steady = SteadyState::skip;
  // The exception of value() does not contain the message, so the test reports the message itself.
  return simulate_scenario(scenario_of(request, configuration), options)
      .map_error([](const UserError& error) {
        ADD_FAILURE() << error.message;
        return error.message;
      })
      .value();
}

/// Simulates a configuration that a search has found, with the number of layers of each stage from the
/// search.
inline Result simulated_configuration(const TuneRequest& request, const TunedConfiguration& tuned) {
  return simulated_configuration(with_layers(request, tuned.configuration, tuned.layers),
                                 tuned.configuration);
}

}  // namespace penstock
