// penstock model: describes the model of a Hugging Face configuration. It prints the number of parameters,
// how many of them one token uses, the layers, and the times of the layers on a device. Each layer's cost
// is computed separately, with the same terms and bytes as in the stages of a pipeline.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "schedules/ir/action.hpp"
#include "topology/presets.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

/// A group of equal layers of a model, with the parameters, bytes and cost terms of one of them.
struct LayerAccount {
  std::string name;
  std::int64_t count = 1;
  std::int64_t parameters = 0;  ///< the number of parameters of one layer
  /// The bytes that one layer stores on a device between its forward and its backward pass.
  std::optional<double> kept_bytes{};
  std::vector<Term> terms{};  ///< cost terms of one layer on a device
};

struct ModelAccount {
  ArchitecturePart part;
  std::optional<Workload> work{};  ///< the devices and parallel degrees; if absent, only parameters are known
  std::vector<LayerAccount> layers;
};

/// Returns the account of a model: its layers with their parameters, times and bytes. Without `work` it has
/// only parameters. `part` replaces the model and the sequence length of `work`. Fails if there is no
/// sequence length, if the parallel degrees do not divide the model, or if the device lacks the precision.
tl::expected<ModelAccount, std::string> account_of(ArchitecturePart part, std::optional<Workload> work);

std::string model_text(const ModelAccount& account);
/// Returns a JSON object: {schema_version, kind: "model", family, parameters, active_parameters,
/// weight_bytes, flops_per_sample, device, layers: [{name, count, parameters, kept_bytes, terms: [{name,
/// kind, forward_ns, backward_ns}]}], ignored, notes}.
std::string model_json(const ModelAccount& account);

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kWeightBytes = 2;  // the bytes of a weight in bf16

/// Returns a name for the layers of one kind, such as "dense layer" or "expert layer, window 4096".
std::string name_of(const LayerKind& kind) {
  std::string name = kind.has_experts ? "expert layer" : "dense layer";
  // A layer without attention, or without a feed-forward part, is named by what it has.
  if (!kind.has_feed_forward) name = kind.has_recurrence ? "recurrent layer" : "attention layer";
  if (!kind.has_feed_forward && !kind.has_attention && !kind.has_recurrence) name = "linear layer";
  if (kind.parts() == 0) name = "empty layer";
  if (kind.has_feed_forward && kind.has_recurrence)
    name += kind.has_attention ? ", recurrent beside attention" : ", recurrent";
  if (kind.has_feed_forward && !kind.has_attention && !kind.has_recurrence) name += " without attention";
  if (kind.heads) name += fmt::format(", {} of {} heads", kind.heads->kv_heads, kind.heads->heads);
  if (kind.feed_forward > 0) name += fmt::format(", width {}", kind.feed_forward);
  if (kind.selected > 0) {
    name += fmt::format(", {} keys{}", kind.selected, kind.has_indexer ? "" : " of an earlier indexer");
  }
  if (kind.window > 0) name += fmt::format(", window {}", kind.window);
  return name;
}

/// Returns the layers of a model with their parameters, but without times. The list has the embedding, each
/// kind of layer with its count, the head, and the layers of multi-token prediction.
std::vector<LayerAccount> layers_of(const Architecture& model) {
  std::vector<LayerAccount> layers;
  layers.push_back({.name = "embedding", .parameters = embedding_parameters(model)});
  for (const LayerGroup& group : layer_groups(model)) {
    layers.push_back({.name = name_of(group.kind),
                      .count = group.count,
                      .parameters = layer_parameters(model, group.kind)});
  }
  layers.push_back({.name = "head", .parameters = head_parameters(model)});
  if (model.multi_token > 0) {
    layers.push_back({.name = "multi-token layer",
                      .count = model.multi_token,
                      .parameters = multi_token_parameters(model)});
  }
  return layers;
}

/// Adds times and bytes to the layers. Requires the layers of layers_of() for the workload's model, in the
/// same order. An embedding is only a table lookup, so it has no matrix product and stores nothing.
void price(std::vector<LayerAccount>& layers, const Workload& work) {
  const KernelTables& kernels = *built_in_kernels(work.device);
  layers.front().kept_bytes = 0;
  std::size_t next = 1;
  for (const LayerGroup& group : layer_groups(work.model)) {
    layers[next].kept_bytes = kept_bytes(work, group.kind);
    layers[next++].terms = layer_terms(work, kernels, group.kind);
  }
  layers[next].kept_bytes = 0;
  layers[next++].terms = head_terms(work, kernels);
  if (work.model.multi_token == 0) return;
  layers[next].kept_bytes = kept_bytes(work, prediction_kind(work.model));
  layers[next].terms = multi_token_terms(work, kernels);
}

/// Returns the floating-point operations of the forward and backward pass for one sample. Returns nothing
/// if the sequence length is unknown, because attention depends on it.
std::optional<double> flops_of(const ArchitecturePart& part) {
  if (!part.sequence) return std::nullopt;
  return flops_per_sample(part.architecture, *part.sequence);
}

// --- text -----------------------------------------------------------------------------------------------

/// Returns a number with its digits in groups of three, such as "8 030 261 248".
std::string grouped(std::int64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t place = digits.size(); place > 3; place -= 3) digits.insert(place - 3, " ");
  return digits;
}

/// Returns a description of the model, such as "llama: 32 layers of width 4096" or "mixtral: 32 layers of
/// width 4096, 2 of 8 experts a token".
std::string description_of(const Architecture& model) {
  std::string text = fmt::format(
      "{} of width {}", format_count(static_cast<std::int64_t>(model.layers.size()), "layer"), model.hidden);
  if (model.experts) {
    text += fmt::format(", {} of {} a token", model.experts->per_token,
                        format_count(model.experts->count, "expert"));
  }
  return model.family.empty() ? text : fmt::format("{}: {}", model.family, text);
}

std::string summary_of(const ArchitecturePart& part) {
  const Architecture& model = part.architecture;
  const std::int64_t count = parameters(model);
  Table table{.columns = {description_of(model), ""}, .rows = {}};
  const auto add = [&](std::string name, std::string figure) {
    table.rows.push_back({{std::move(name), {}}, {std::move(figure), 0.0}});
  };
  add("parameters", grouped(count));
  add("active parameters", grouped(active_parameters(model)));
  add("weights in bf16", format_bytes(kWeightBytes * count));
  if (const auto flops = flops_of(part))
    add(fmt::format("operations of a sample of {} tokens", *part.sequence), fmt::format("{:.6g}", *flops));
  return table_to_text(table);
}

Cell microseconds(double seconds) {
  return {fmt::format("{:.1f}", seconds * kMicrosecondsPerSecond), seconds};
}

/// Returns a table with one row per kind of layer. Times and bytes are for one layer on one device.
std::string layers_text(const ModelAccount& account) {
  Table table{.columns = {"layer", "count", "parameters"}, .rows = {}};
  if (account.work) table.columns.insert(table.columns.end(), {"forward us", "backward us", "kept"});
  for (const LayerAccount& layer : account.layers) {
    std::vector<Cell> row = {{layer.name, {}},
                             {std::to_string(layer.count), static_cast<double>(layer.count)},
                             {grouped(layer.parameters), static_cast<double>(layer.parameters)}};
    if (account.work) {
      const Term sum = total_of(layer.terms);
      const double kept = layer.kept_bytes.value_or(0);
      row.push_back(microseconds(sum.forward));
      row.push_back(microseconds(sum.backward()));
      row.push_back({format_bytes(static_cast<Bytes>(kept)), kept});
    }
    table.rows.push_back(std::move(row));
  }
  return table_to_text(table);
}

/// Returns a table of the cost terms (parts of the time) of each kind of layer.
std::string terms_text(const ModelAccount& account) {
  std::string text;
  for (const LayerAccount& layer : account.layers) {
    if (layer.terms.empty()) continue;
    Table table{.columns = {layer.name, "kind", "forward us", "backward us"}, .rows = {}};
    for (const Term& term : layer.terms) {
      table.rows.push_back({{term.name, {}},
                            {std::string(to_text(term.kind)), {}},
                            microseconds(term.forward),
                            microseconds(term.backward())});
    }
    text += fmt::format("\n{}", table_to_text(table));
  }
  return text;
}

/// Returns a description of the workload for which the times are computed.
std::string work_text(const Workload& work) {
  return fmt::format(
      "a microbatch of {} on {} in {}: sequence {}, tensor {} x context {}, expert {}, sustained {}",
      format_count(work.micro_batch_size, "sample"), work.device.name, to_text(work.precision), work.sequence,
      work.parallel.tensor, work.parallel.context, work.parallel.expert, sustained_factor(work));
}

// --- JSON -----------------------------------------------------------------------------------------------

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * kNanosecondsPerSecond); }

Json terms_json(const std::vector<Term>& terms) {
  Json list = Json::array();
  for (const Term& term : terms) {
    list.push_back({{"name", term.name},
                    {"kind", to_text(term.kind)},
                    {"forward_ns", nanoseconds(term.forward)},
                    {"backward_ns", nanoseconds(term.backward())}});
  }
  return list;
}

Json layers_json(const ModelAccount& account) {
  Json layers = Json::array();
  for (const LayerAccount& layer : account.layers) {
    Json object = {{"name", layer.name}, {"count", layer.count}, {"parameters", layer.parameters}};
    if (account.work) {
      object["kept_bytes"] = std::llround(layer.kept_bytes.value_or(0));
      object["terms"] = terms_json(layer.terms);
    }
    layers.push_back(std::move(object));
  }
  return layers;
}

}  // namespace

tl::expected<ModelAccount, std::string> account_of(ArchitecturePart part, std::optional<Workload> work) {
  ModelAccount account{.part = std::move(part), .work = {}, .layers = {}};
  account.layers = layers_of(account.part.architecture);
  if (!work) return account;
  if (!account.part.sequence)
    return tl::unexpected(std::string("--device: expected --sequence N, the tokens of a sample, as well"));
  work->model = account.part.architecture;
  work->sequence = *account.part.sequence;
  if (const auto fault = fault_of(*work)) return tl::unexpected(*fault);
  price(account.layers, *work);
  account.work = std::move(work);
  return account;
}

std::string model_text(const ModelAccount& account) {
  std::string text = fmt::format("{}\n{}", summary_of(account.part), layers_text(account));
  if (account.work) {
    text += terms_text(account);
    text += fmt::format("\n{}\n", work_text(*account.work));
  }
  if (!account.part.notes.empty()) text += '\n';
  for (const std::string& note : account.part.notes) text += fmt::format("note: {}\n", note);
  return text;
}

std::string model_json(const ModelAccount& account) {
  const ArchitecturePart& part = account.part;
  const Architecture& model = part.architecture;
  Json document = {{"schema_version", 1},
                   {"kind", "model"},
                   {"family", model.family},
                   {"parameters", parameters(model)},
                   {"active_parameters", active_parameters(model)},
                   {"weight_bytes", kWeightBytes * parameters(model)}};
  if (const auto flops = flops_of(part)) document["flops_per_sample"] = *flops;
  if (account.work) document["device"] = account.work->device.name;
  document["layers"] = layers_json(account);
  document["ignored"] = part.ignored;
  document["notes"] = part.notes;
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

namespace {

const std::vector<std::string_view> kModelFiles = {".json", ".txt"};

struct ModelQuestion {
  ArchitectureRequest request;
  OutputFlags output;
  std::string device;
  std::string precision = "bf16";
  std::int64_t tensor = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
  std::int64_t micro_batch_size = 1;
};

tl::expected<GemmPrecision, std::string> precision_of(const std::string& word) {
  if (const auto precision = enum_of_text<GemmPrecision>(word)) return *precision;
  return tl::unexpected(fmt::format("--precision: expected bf16, fp8 or fp4, got \"{}\"", word));
}

/// Returns the workload that the flags describe: the model on a device. Returns nothing if no device is
/// given.
tl::expected<std::optional<Workload>, std::string> workload_of(const ModelQuestion& flags) {
  const auto precision = precision_of(flags.precision);
  if (!precision) return tl::unexpected(precision.error());
  if (flags.device.empty()) return std::nullopt;
  const DeviceType* device = find_device_type(flags.device);
  if (device == nullptr) {
    return tl::unexpected(
        fmt::format("--device: expected one of {}, got \"{}\"", device_type_names(), flags.device));
  }
  Workload work;
  work.device = *device;
  work.precision = *precision;
  work.micro_batch_size = flags.micro_batch_size;
  work.parallel.tensor = static_cast<std::int32_t>(flags.tensor);
  work.parallel.context = static_cast<std::int32_t>(flags.context);
  work.parallel.expert = static_cast<std::int32_t>(flags.expert);
  // Experts are distributed over data-parallel copies, so there must be as many copies as expert ranks.
  work.parallel.data = work.parallel.expert;
  return work;
}

Outcome run_model(const ModelQuestion& flags) {
  if (auto known = check_output_files(flags.output.files, kModelFiles, {{"the input", flags.request.config}});
      !known)
    return tl::unexpected(known.error());
  auto part = load_architecture(flags.request);
  if (!part) return bad_input(part.error());
  auto work = workload_of(flags);
  if (!work) return bad_input(work.error());
  const auto account = account_of(*std::move(part), *std::move(work));
  if (!account) return bad_input(account.error());
  const std::vector<OutputForm> forms = {{".json", [&] { return model_json(*account); }},
                                         {".txt", [&] { return model_text(*account); }}};
  const std::string text = flags.output.json ? model_json(*account) : model_text(*account);
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

}  // namespace

Command model_command(CLI::App& root) {
  Subcommand app(root, "model",
                 "Count a model's parameters, layer by layer, and price its layers on a device.");
  const auto flags = std::make_shared<ModelQuestion>();
  const std::string group = "Model";
  app.add_option("CONFIG", flags->request.config,
                 fmt::format("a config.json of Hugging Face, or a model of the library: {}",
                             fmt::join(library_configs(), ", ")))
      .words(library_configs())
      .required()
      .type_name("FILE");
  app.add_option("--ignore", flags->request.ignore,
                 "a key of it to leave out, such as vision_config, to price the rest; may be repeated")
      .group(group)
      .one_value_each()
      .type_name("KEY");
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  app.add_option("--layers", flags->request.layers, "its first N layers only")
      .range(std::int64_t{1}, kMost)
      .group(group)
      .type_name("N");
  app.add_option("--multi-token", flags->request.multi_token,
                 "with N layers of multi-token prediction, which no count of parameters holds")
      .range(std::int64_t{0}, std::int64_t{64})
      .group(group)
      .type_name("N");
  app.add_option("--sequence", flags->request.sequence,
                 "tokens of a sample, for its floating-point operations")
      .range(std::int64_t{1}, kMost)
      .group(group)
      .type_name("N");
  const std::string on_device = "On a device (takes --sequence)";
  app.add_option("--device", flags->device,
                 "a100-sxm, h100-sxm, h200-sxm, b200-sxm, gb200, b300, gb300, a800, h800, h20, l40s, mi300x, "
                 "mi325x or tpu-v5p")
      .group(on_device)
      .type_name("NAME");
  app.add_option("--precision", flags->precision, "of matrix products: bf16 (default), fp8 or fp4")
      .group(on_device)
      .type_name("WORD");
  const auto add_degree = [&](const std::string& name, std::int64_t& degree, const std::string& help) {
    app.add_option(name, degree, help)
        .range(std::int64_t{1}, std::int64_t{1} << 20)
        .group(on_device)
        .type_name("N");
  };
  add_degree("--tensor-parallel", flags->tensor, "devices that share each layer (default 1)");
  add_degree("--context-parallel", flags->context, "devices that share each sequence (default 1)");
  add_degree("--expert-parallel", flags->expert, "devices that share the experts of a layer (default 1)");
  add_degree("--micro-batch-size", flags->micro_batch_size, "samples of a microbatch (default 1)");
  add_output_flags(app, flags->output, ".json .txt");
  app.footer(
      "Examples:\n"
      "  penstock model llama-3.1-8b\n"
      "  penstock model llama-3.1-70b --sequence 8192 --device h100-sxm "
      "--tensor-parallel 8\n"
      "  penstock model scenarios/library/models/mixtral-8x7b.json --sequence 8192 --json | jq "
      ".active_parameters");
  return {app, [flags] { return run_model(*flags); }};
}

}  // namespace penstock
