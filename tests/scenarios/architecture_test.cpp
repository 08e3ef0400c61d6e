// Parameters of published models from their configurations (configs/NAME.json, sizes as their publishers
// print them), against the totals that are published or that a checkpoint of the model has, and what must
// hold between models that differ in one thing.

#include "scenarios/architecture/architecture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/read/load_architecture.hpp"
#include "tests/source_path.hpp"

namespace penstock {
namespace {

/// A configuration of this folder or of the library.
std::string file_of(const std::string& name) {
  const std::string here = source_path("tests/scenarios/configs/" + name + ".json");
  return std::filesystem::exists(here) ? here : source_path("scenarios/library/models/" + name + ".json");
}

ArchitecturePart read(const std::string& name, std::vector<std::string> ignore = {}) {
  const auto part = load_architecture({.config = file_of(name), .ignore = std::move(ignore)});
  EXPECT_TRUE(part) << part.error();
  return part.value_or(ArchitecturePart{.architecture = {.layers = {{}}}});
}

// --- published totals -----------------------------------------------------------------------------------

struct Published {
  std::string name;
  std::int64_t parameters;
};

class PublishedModel : public testing::TestWithParam<Published> {};

TEST_P(PublishedModel, HasItsParameters) {
  std::vector<std::string> ignore;
  if (GetParam().name == "llama-4-scout") ignore = {"vision_config"};
  const ArchitecturePart part = read(GetParam().name, ignore);
  EXPECT_EQ(parameters(part.architecture), GetParam().parameters);
  EXPECT_EQ(part.notes.size(), ignore.size()) << part.notes.back();
}

INSTANTIATE_TEST_SUITE_P(
    Models, PublishedModel,
    testing::Values(Published{"gpt2", 124'439'808},  //
                    Published{"gpt3-175b", 174'615'846'912}, Published{"opt-6.7b", 6'658'473'984},
                    Published{"bloom", 176'247'271'424}, Published{"gpt-j-6b", 6'050'882'784},
                    Published{"gpt-neox-20b", 20'554'567'680}, Published{"falcon-7b", 6'921'720'704},
                    Published{"falcon-40b", 41'303'293'952}, Published{"starcoder", 15'517'456'384},
                    Published{"starcoder2-3b", 3'030'371'328}, Published{"phi-2", 2'779'683'840},
                    Published{"phi-3-mini", 3'821'079'552}, Published{"phi-3.5-moe", 41'873'153'344},
                    Published{"llama-7b", 6'738'415'616}, Published{"llama-2-70b", 68'976'648'192},
                    Published{"llama-3.1-8b", 8'030'261'248}, Published{"llama-3.1-70b", 70'553'706'496},
                    Published{"llama-3.1-405b", 405'853'388'800}, Published{"llama-3.2-1b", 1'235'814'400},
                    Published{"llama-3.2-3b", 3'212'749'824}, Published{"llama-4-scout", 107'769'861'120},
                    Published{"mistral-7b", 7'241'732'096}, Published{"mistral-nemo", 12'247'782'400},
                    Published{"mixtral-8x7b", 46'702'792'704}, Published{"mixtral-8x22b", 140'620'634'112},
                    Published{"qwen2.5-0.5b", 494'032'768}, Published{"qwen2.5-7b", 7'615'616'512},
                    Published{"qwen1.5-moe-a2.7b", 14'315'784'192}, Published{"qwen3-8b", 8'190'735'360},
                    Published{"qwen3-30b-a3b", 30'532'122'624}, Published{"qwen3-235b-a22b", 235'093'634'560},
                    Published{"gpt-oss-20b", 20'914'757'184}, Published{"gpt-oss-120b", 116'829'156'672},
                    Published{"deepseek-moe-16b", 16'375'728'128},
                    Published{"deepseek-v2-lite", 15'706'484'224}, Published{"deepseek-v2", 235'741'434'880},
                    Published{"deepseek-v3", 671'026'419'200}, Published{"kimi-k2", 1'026'408'232'448},
                    Published{"gemma-7b", 8'537'680'896}, Published{"gemma-2-9b", 9'241'705'984},
                    Published{"gemma-3-1b", 999'885'952}, Published{"stablelm-2-1.6b", 1'644'515'328},
                    Published{"olmo-2-7b", 7'298'617'344}, Published{"olmoe-1b-7b", 6'919'161'856},
                    Published{"command-r", 34'980'831'232}, Published{"command-r-plus", 103'810'674'688},
                    Published{"glm-4-9b-0414", 9'400'279'040}, Published{"exaone-4-32b", 32'003'216'384},
                    Published{"seed-oss-36b", 36'151'104'512}, Published{"smollm3-3b", 3'075'098'624},
                    Published{"ernie-4.5-21b-a3b", 21'825'437'888}, Published{"dots.llm1", 142'774'381'696}),
    [](const auto& row) {
      std::string name = row.param.name;
      std::ranges::replace_if(name, [](char c) { return c == '-' || c == '.'; }, '_');
      return name;
    });

}  // namespace
}  // namespace penstock
