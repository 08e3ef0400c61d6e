#pragma once
// From a Hugging Face config.json to an Architecture. Used by load_model.cpp and by the command that shows
// what a model is.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/reader.hpp"

namespace penstock {

/// What was read, and what to know about it.
struct ArchitecturePart {
  Architecture architecture;
  std::optional<std::int64_t> sequence{};  ///< where it is said
  std::vector<std::string> ignored{};      ///< keys that were left out on demand
  std::vector<std::string> notes{};
};

/// `model: {huggingface: FILE, sequence: S, layers: N, multi_token: N, ignore: [KEY, ..]}`; nothing where a
/// problem was noted. Errors: a file that cannot be read, sizes that are missing or do not divide, more than
/// 2^58 parameters, a structure that has no price and is not ignored, more layers than there are, a sequence
/// beyond learned positions.
std::optional<ArchitecturePart> read_architecture(const MappingReader& model, Problem& problem);

/// The same for a file named on the command line.
struct ArchitectureRequest {
  std::string config{};
  std::optional<std::string> text{};  ///< what `config` holds; absent: it is read
  std::vector<std::string> ignore{};
  std::optional<std::int64_t> layers{};
  std::optional<std::int64_t> multi_token{};
  std::optional<std::int64_t> sequence{};
};
/// Errors start with the file or with the flag.
tl::expected<ArchitecturePart, std::string> load_architecture(const ArchitectureRequest& request);

/// Notes a problem at `node` where the model has more than 2^58 parameters.
void refuse_too_large(const Architecture& model, const Node& node, std::string_view path, Problem& problem);

/// True of what transformer.hpp prices: a GPT-2 of any size.
bool is_plain_gpt(const Architecture& model);

}  // namespace penstock
