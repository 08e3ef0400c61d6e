#pragma once
// Converts a Hugging Face config.json to an Architecture. HuggingFaceConfig records which keys were read,
// so that no key is ignored silently. A table of model families supplies what a configuration leaves out.
// huggingface_config.cpp, huggingface_families.cpp, huggingface_layers.cpp and huggingface_model.cpp
// implement this header. load_architecture.cpp uses it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/reader.hpp"

namespace penstock {

/// The keys that different model families use for the same property. The most common key comes first.
using KeyNames = std::vector<std::string_view>;

/// A part of a Hugging Face configuration whose cost cannot be computed.
struct UnpricedKey {
  const Node* place = nullptr;
  std::string key;
  std::string description;  ///< the key and the reason: "layer_types (linear_attention)"
};

/// The keys of a Hugging Face config.json. If the configuration contains a text model (`text_config`), the
/// keys of that model take precedence. Unless stated otherwise, a function that reads keys marks them as
/// read. A key whose value is null counts as absent.
class HuggingFaceConfig {
 public:
  /// Requires that `root` is a mapping and that `problem` outlives this object.
  HuggingFaceConfig(Node root, Problem& problem);

  /// Removes a key, so that it counts as absent. Returns false if the key does not exist.
  bool ignore(std::string_view key);
  /// Returns all keys of the configuration, for messages about a missing key.
  std::vector<std::string_view> keys() const;

  /// Returns true if the key has a value. Does not mark the key as read.
  bool has(std::string_view key) const;
  /// Returns the value of the first of `names` that is present, or null if none is.
  const Node* find(const KeyNames& names);
  std::optional<std::int64_t> size(const KeyNames& names, Range range);
  /// Returns the same value as size(), but nothing if the value is 0 or false.
  std::optional<std::int64_t> size_if_any(const KeyNames& names, Range range);
  /// Returns the size that the first present key of `names` states. If all keys are absent, records a problem
  /// and returns 1.
  std::int64_t required(const KeyNames& names, Range range);
  std::optional<bool> flag(const KeyNames& names);
  /// Returns the word that the first present key of `names` states, or an empty text if all keys are absent.
  std::string word(const KeyNames& names);
  /// Returns the list of whole numbers under `key`, or an empty list if the key is absent.
  std::vector<std::int64_t> numbers(std::string_view key, Range range);
  /// Returns the list of words under the first present key of `names`, or an empty list if all keys are
  /// absent.
  std::vector<std::string> words(const KeyNames& names);
  /// Marks keys as read, so that they are not reported as unknown. It is for keys without an effect on this
  /// model.
  void know(const KeyNames& names);

  /// Records a part whose cost cannot be computed. `node` is the value of `key`.
  void add_unpriced(const Node& node, std::string_view key, std::string_view detail);
  /// Returns all parts whose cost cannot be computed. These are the recorded parts and all unread keys that
  /// probably describe the model's structure, such as mappings.
  std::vector<UnpricedKey> unpriced() const;
  /// Returns the unread keys that unpriced() does not return, except keys whose value means "off".
  std::vector<std::string> unknown() const;
  /// Returns the keys that describe parts other than the text model, such as "vision_config".
  std::vector<std::string> other_parts() const;

  const Node& root() const { return root_; }
  /// complain() records an error. With `node`, it records the error at this node, which is the value of
  /// `key`. With `names`, it records the error at the value of the first of `names` that is present. If none
  /// is present, it records the error at the whole mapping.
  void complain(const Node& node, std::string_view key, std::string_view text) const;
  void complain(const KeyNames& names, std::string_view text);

 private:
  /// A key that no code has read and whose value does not mean "off".
  struct Unread {
    const Node* key = nullptr;
    bool hints = false;  ///< true if the key probably describes the model's structure
  };

  const Node* nested() const;
  /// Returns the value of the key, or null if it is absent or null.
  const Node* value_of(std::string_view key) const;
  std::vector<Unread> unread() const;

  Node root_;
  std::string nested_key_;  ///< empty if only the root has keys
  std::set<std::string, std::less<>> read_;
  std::vector<UnpricedKey> noted_;
  Problem* problem_;
};

/// Returns true for values that mean "switched off": null, false, 0, "none", and empty lists and mappings.
bool is_off(const Node& value);

// Classifies the keys of a configuration that no code reads. It uses only their names.

/// Returns true for keys that change neither sizes nor the amount of computation: token ids, dropout, rotary
/// angles, initial values, settings of tokenizers and generators, and the storage of weights. It also returns
/// true for keys of multi-token prediction, because this is computed only if the scenario requests it.
bool is_without_price(std::string_view key);

/// Returns true for keys that contain a word for a part of a model or for its size, such as "mamba_d_state"
/// or "vision_config".
bool hints_at_structure(std::string_view key);

/// Returns true for keys of a part that handles images or sound, such as "vision_config". Such a part is in
/// no cost and in no number of parameters.
bool is_other_part(std::string_view key);

// The properties of model families that their configurations do not state. Used by load_architecture.hpp.

/// The weights of the norm of queries and keys, if a model has this norm.
enum class QueryKeyNorm : std::uint8_t {
  per_head,  ///< head_dim weights, which all heads share
  wide,      ///< separate weights for each head
  bare       ///< no weights
};

/// The properties of a family, which apply if a configuration has no key for them. The defaults describe a
/// plain Llama: gated, RMSNorm, rotary positions, no biases, an untied head.
struct HuggingFaceFamily {
  /// The values of the key `model_type` that belong to the family, separated by blanks. A * at the beginning
  /// or the end matches any text.
  std::string_view names;
  /// The reason why the costs of this family's models cannot be computed. Empty if they can be computed.
  std::string_view unpriced{};
  bool tied = false;
  bool layer_norm = false;
  bool gated = true;
  std::int64_t norms = 2;  ///< the norms of a layer
  bool query_key_value_bias = false;
  bool output_bias = false;
  /// True if the key `attention_bias` also applies to the attention's output.
  bool output_has_attention_bias = true;
  bool feed_forward_bias = false;
  bool head_bias = false;
  bool query_key_norm = false;
  QueryKeyNorm query_key_norm_kind = QueryKeyNorm::per_head;
  bool attention_sinks = false;
  AttentionGate attention_gate = AttentionGate::none;
  bool router_bias = false;
  bool expert_bias = false;
  bool shared_gate = false;
  bool learned_positions = false;
  std::int64_t further_positions = 0;  ///< the number of learned position embeddings that no token can use
  bool embedding_norm = false;
  /// True if `use_sliding_window: true` is needed for windows: without it, no layer has a window.
  bool windows_by_switch = false;
  /// The interval n of layers with full attention: in every n-th layer, attention covers all tokens. If it
  /// is 0 and the model has a window, every layer has the window.
  std::int64_t full_every = 0;
  /// The interval n of layers with attention in a model with recurrent layers: every n-th layer has
  /// attention. If it is 0, lists in the configuration must say which layers have it.
  std::int64_t attention_every = 0;
  /// True if every layer has attention and the recurrence side by side.
  bool recurrence_beside = false;
  /// True if a layer has only one part: attention, a recurrence (such as Mamba), or a feed-forward part.
  bool one_part_layers = false;
  /// True if a model without routed experts uses the shared experts as its feed-forward part.
  bool shared_when_dense = false;
  /// True if attention and the feed-forward part share one norm when the configuration has
  /// `use_parallel_residual`.
  bool one_norm_beside = false;
  std::int64_t head_dim = 0;  ///< 0 means hidden / heads
  std::int64_t heads = 0;     ///< for this and the next figures, 0 means that the key is required
  std::int64_t kv_heads = 0;
  std::int64_t vocabulary = 0;
};

/// Returns the family of a model type, or null if it is unknown. The comparison ignores case, `_`, `-` and
/// `.`.
const HuggingFaceFamily* find_family(std::string_view model_type);

// Finds what the layers of a configuration have: experts, an attention window, a recurrence, own sizes.

/// Returns the kind of each layer of `model`, in order. `model` needs all its properties except the kinds;
/// of `model.layers`, only the number counts. If the model has no sizes for a type of layer, this type
/// becomes an unpriced key of `config`. Records a problem if a list does not have one entry for each layer.
std::vector<LayerKind> layer_kinds_of(HuggingFaceConfig& config, const HuggingFaceFamily& family,
                                      const Architecture& model);

/// Returns the number of layers in the list or pattern of the configuration that states the type of each
/// layer. Returns nothing if the configuration has no such list.
std::optional<std::int64_t> listed_layers(HuggingFaceConfig& config);

/// Returns the sizes of the model's recurrence, or nothing if the model has none. Reads Mamba-2, the gated
/// delta rule, Kimi delta attention and linear attention. The attention heads of `model` must already be
/// set.
std::optional<RecurrentMixer> recurrence_of(HuggingFaceConfig& config, const Architecture& model);

/// Returns the layers that `block_configs` describes one by one, or an empty list if the key is absent.
std::vector<LayerKind> layers_by_block(HuggingFaceConfig& config, const Architecture& model);

// Turns the keys of a configuration into an Architecture. Used by load_architecture.hpp.

/// Returns the model that the configuration describes. Records errors in `config` for sizes that are
/// missing, out of range, or not divisible as required. Parts whose costs cannot be computed become
/// unpriced keys of `config`.
Architecture architecture_of(HuggingFaceConfig& config, const HuggingFaceFamily& family);

}  // namespace penstock
