#pragma once
// Models and recipes that configurations name instead of stating their sizes.

#include <string>
#include <string_view>
#include <vector>

#include "scenarios/import/plan.hpp"
#include "scenarios/import/settings.hpp"

namespace penstock {

/// Sets the sizes of a known model as keys of model.transformer. The name may be that of a file or a flavor,
/// such as "llama3.1_8B.yaml", "meta-llama/Llama-3.1-8B" or "llama3 8B". Returns false for an unknown name.
bool set_known_model(Plan& plan, std::string_view name);
/// Returns the names of the known models, separated by commas.
std::string known_model_names();

/// Adds the settings of a recipe of Megatron Bridge, in the names of Megatron-LM, and the sizes of its model.
/// Returns false for an unknown name.
bool add_bridge_recipe(Settings& settings, Plan& plan, std::string_view name);
/// Returns the names of the known recipes.
std::vector<std::string_view> bridge_recipe_names();

}  // namespace penstock
