#pragma once
// Finds the sizes of models and the settings of recipes that a configuration states only by name.

#include <string>
#include <string_view>
#include <vector>

#include "scenarios/import/plan.hpp"
#include "scenarios/import/settings.hpp"

namespace penstock {

/// Adds the sizes of a known model to `plan` as keys of model.transformer. `name` may be a file or a
/// model's name, such as "llama3.1_8B.yaml", "meta-llama/Llama-3.1-8B" or "llama3 8B". Returns false for an
/// unknown name.
bool set_known_model(Plan& plan, std::string_view name);
/// Returns the names of the known models, separated by commas.
std::string known_model_names();

/// Adds the settings and model sizes of a recipe of Megatron Bridge. The settings have the names of
/// Megatron-LM's arguments. Returns false for an unknown recipe.
bool add_bridge_recipe(Settings& settings, Plan& plan, std::string_view name);
/// Returns the names of the known recipes.
std::vector<std::string_view> bridge_recipe_names();

}  // namespace penstock
