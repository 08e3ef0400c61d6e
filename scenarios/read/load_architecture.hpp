#pragma once
// Reads those forms of `model:` that describe a transformer. A config.json or a list of sizes becomes an
// Architecture (load_architecture.cpp), or layers of the analytic transformer (load_transformer.cpp).

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// A model that was read from a scenario, with its sequence lengths and its notes.
struct ArchitecturePart {
  Architecture architecture;
  /// The number of tokens of a sequence; absent if it is not stated. If microbatches differ, it is the
  /// largest number.
  std::optional<std::int64_t> sequence{};
  /// The number of tokens of a sequence in each microbatch. Empty if all microbatches have equal sequences.
  std::vector<std::int64_t> sequences{};
  std::vector<std::string> ignored{};  ///< the keys that the user chose to ignore
  std::vector<std::string> notes{};
};

/// Returns the names of the configurations in scenarios/library/models, such as "llama-3.1-70b".
std::vector<std::string_view> library_configs();

/// Returns true if `name` is a configuration of the library and no file has the path `path`. A file has
/// priority, so that a user can replace a configuration of the library.
bool is_library_config(const std::filesystem::path& path, std::string_view name);

/// Returns the text of the file at `path`, or else of the library's configuration `name`. Returns an error
/// that begins with `name` if neither exists. If `name` resembles a name in the library, the error suggests
/// that name.
tl::expected<std::string, std::string> read_config_text(const std::filesystem::path& path,
                                                        const std::string& name);

/// Reads `model: {huggingface: FILE, sequence: S, layers: N, multi_token: N, ignore: [KEY, ..]}`. Returns
/// nothing if it has noted a problem. It is a problem if the file cannot be read, or if sizes are missing or
/// not divisible as required. A structure without computable costs is a problem unless the user ignores it.
/// Other problems are more than 2^58 parameters, more layers than the model has, and a sequence that is
/// longer than the learned positions.
std::optional<ArchitecturePart> read_architecture(const MappingReader& model, Problem& problem);

/// A request to read a model from a file that the command line names.
struct ArchitectureRequest {
  std::string config{};
  std::optional<std::string> text{};  ///< the content of `config`; absent if the file must be read
  std::vector<std::string> ignore{};
  std::optional<std::int64_t> layers{};
  std::optional<std::int64_t> multi_token{};
  std::optional<std::int64_t> sequence{};
};
/// Reads the model from the file of a request. An error message begins with the name of the file or of the
/// flag.
tl::expected<ArchitecturePart, std::string> load_architecture(const ArchitectureRequest& request);

/// Records a problem at `node` if the model has more than 2^58 parameters.
void refuse_too_large(const Architecture& model, const Node& node, std::string_view path, Problem& problem);

/// Returns true for a GPT-2 of any size. transformer.hpp can compute the costs of such a model.
bool is_plain_gpt(const Architecture& model);

// Reads `model.transformer: {...}` as an Architecture. It has the sizes of a GPT, and optional keys for the
// parts of newer models. load_transformer.cpp uses it, and load_model.cpp uses it for models on named
// devices.

/// Reads the sizes in `model.transformer` and returns the model, or nothing if a problem was noted. It is a
/// problem if sizes are missing or not divisible as required, or if only one of two keys is given that belong
/// together. Keys that are valid only without a named device (efficiency, tensor_parallel, ..) are also a
/// problem.
std::optional<ArchitecturePart> read_architecture_sizes(const Node& transformer, Problem& problem);

/// Returns the keys of `model.transformer` that describe a model other than a GPT.
std::span<const Key> keys_of_architecture_sizes();

// Reads the two forms of `model:` that describe an analytic transformer. load_model.cpp uses it.

/// The layers of a transformer, with their costs for one sample and notes on the assumptions.
struct TransformerPart {
  LayerGraph graph;
  std::int32_t devices_per_rank = 1;      ///< the transformer's tensor_parallel
  Precision precision = Precision::full;  ///< mixed if the transformer's values have 2 bytes
  std::vector<std::string> notes;
};

/// Reads `model.transformer` as layers. `cluster` gives the devices on which their costs depend.
TransformerPart read_transformer(const Node& node, const ClusterSpec& cluster, Problem& problem);

/// Reads the model in `model.huggingface: FILE` as layers. The sizes come from this config.json, and the
/// other keys of a transformer come from `model`.
TransformerPart read_huggingface(const MappingReader& model, const ClusterSpec& cluster, Problem& problem);

/// Reads the number of tokens of a sample for each microbatch, such as `{microbatches: [8192, 4096, ..]}`.
/// If the value has another form, records a problem at `path` and returns an empty list.
std::vector<std::int64_t> read_sequences(const Node& node, std::string_view path, Problem& problem);

/// Returns all keys of `model.transformer`.
std::span<const Key> keys_of_transformer();

/// Records a problem for each key that has no meaning if `cluster.device` names a device, such as
/// efficiency and tensor_parallel. It checks the keys of `model.transformer` and the keys beside
/// `huggingface`.
void refuse_keys_without_device(const MappingReader& model);

/// Returns the keys of `model:` that a scenario may state together with `huggingface`.
std::span<const Key> keys_beside_huggingface();

}  // namespace penstock
