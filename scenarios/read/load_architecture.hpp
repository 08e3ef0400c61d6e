#pragma once
// Reads a Hugging Face config.json as an Architecture. Used by load_model.cpp and by the command that shows a
// model.

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

/// A model that was read, with notes about it.
struct ArchitecturePart {
  Architecture architecture;
  std::optional<std::int64_t> sequence{};  ///< the length of a sequence, if it is stated
  std::vector<std::string> ignored{};      ///< the keys that the user chose to ignore
  std::vector<std::string> notes{};
};

/// Reads `model: {huggingface: FILE, sequence: S, layers: N, multi_token: N, ignore: [KEY, ..]}`. Returns
/// nothing if a problem was noted. Problems: a file that cannot be read, sizes that are missing or do not
/// divide, more than 2^58 parameters, a structure that cannot be priced and is not ignored, more layers than
/// the model has, a sequence beyond learned positions.
std::optional<ArchitecturePart> read_architecture(const MappingReader& model, Problem& problem);

/// A request to read a file that is named on the command line.
struct ArchitectureRequest {
  std::string config{};
  std::optional<std::string> text{};  ///< the content of `config`; absent if the file must be read
  std::vector<std::string> ignore{};
  std::optional<std::int64_t> layers{};
  std::optional<std::int64_t> multi_token{};
  std::optional<std::int64_t> sequence{};
};
/// Reads the file of a request. Errors begin with the file or with the flag.
tl::expected<ArchitecturePart, std::string> load_architecture(const ArchitectureRequest& request);

/// Notes a problem at `node` if the model has more than 2^58 parameters.
void refuse_too_large(const Architecture& model, const Node& node, std::string_view path, Problem& problem);

/// Returns true for a GPT-2 of any size, which transformer.hpp can price.
bool is_plain_gpt(const Architecture& model);

}  // namespace penstock
