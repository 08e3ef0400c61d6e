// Imports files that describe a server or a network. The result is the part `cluster` of a scenario, which
// refers to the file. scenarios/read/load_machine.cpp later reads the cluster from it. This file also lists
// what the file contains, so that the user sees which of it is used. The contents are elements and attributes
// of NCCL's XML, cells and columns of a matrix, or keys of ASTRA-sim. Tests: tests/scenarios/import_test.cpp.

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <tl/expected.hpp>

#include "scenarios/import/importers.hpp"
#include "scenarios/import/settings.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/machine.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/schema.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

std::string_view title_of(MachineFormat format) {
  switch (format) {
    case MachineFormat::nccl_xml:
      return "NCCL's topology";
    case MachineFormat::topo_matrix:
      return "the matrix of nvidia-smi topo -m";
    case MachineFormat::astra_sim:
      return "a network of ASTRA-sim";
    case MachineFormat::none:
      break;
  }
  return "";
}

/// A key of the file (`name`), and the part of the scenario's cluster that is set from this key (`target`).
struct TakenRow {
  std::string_view name;
  std::string_view target;
};

void take_rows(Settings& settings, std::span<const TakenRow> rows) {
  for (const TakenRow& row : rows) settings.take(row.name, row.target);
}

/// The values of each key of a file, in the order in which the keys occur first.
class ValuesByKey {
 public:
  void add(const std::string& key, std::string value) {
    auto [found, is_new] = places_.try_emplace(key, values_.size());
    if (is_new) values_.push_back({key, {}});
    values_[found->second].second.push_back(std::move(value));
  }

  /// Returns one setting for each key. Its text has up to three different values, and the number of all
  /// values if there are several, for example "1, 2 (4 times)".
  Settings settings() const {
    Settings settings;
    for (const auto& [key, all] : values_) {
      constexpr std::size_t kShown = 3;
      std::vector<std::string> shown;
      for (const std::string& value : all) {
        if (std::ranges::find(shown, value) == shown.end()) shown.push_back(value);
      }
      const bool is_cut = shown.size() > kShown;
      if (is_cut) shown.resize(kShown);
      settings.add(key, fmt::format("{}{}{}", fmt::join(shown, ", "), is_cut ? ", .." : "",
                                    all.size() > 1 ? fmt::format(" ({} times)", all.size()) : ""));
    }
    return settings;
  }

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> values_;
  std::map<std::string, std::size_t> places_;  // the index in values_ of each key
};

// --- NCCL's XML -------------------------------------------------------------------------------------------

using Tree = boost::property_tree::ptree;

/// Adds the attributes of all elements under names such as "pci.link_speed". An element without attributes is
/// added under its own name.
void add_elements(const Tree& tree, ValuesByKey& values) {
  for (const auto& [name, element] : tree) {
    if (name == "<xmlattr>") continue;
    const auto attributes = element.find("<xmlattr>");
    if (attributes == element.not_found()) {
      values.add(name, "an element");
    } else {
      for (const auto& [attribute, value] : attributes->second)
        values.add(fmt::format("{}.{}", name, attribute), shown_name(value.data()));
    }
    add_elements(element, values);
  }
}

/// Returns true if a link of this name (`nvlink` or `xgmi`) has another target than its own GPU, which is
/// named by its bus or its number.
bool joins_others(const Tree& tree, std::string_view link, const std::string& bus = "",
                  const std::string& number = "") {
  return std::ranges::any_of(tree, [&](const Tree::value_type& child) {
    const auto& [name, element] = child;
    const auto attribute = [&](const std::string& key, const std::string& otherwise) {
      return element.get("<xmlattr>." + key, otherwise);
    };
    if (name == link) {
      const std::string target = attribute("target", "");
      return target.empty() || (target != bus && target != number);
    }
    return joins_others(element, link, attribute("busid", attribute("pci", bus)), attribute("dev", number));
  });
}

constexpr auto kTakenOfXml =
    std::to_array<TakenRow>({{"gpu.dev", "cluster.devices"},
                             {"gpu.sm", "cluster.links.bandwidth"},
                             {"nvlink.target", "cluster.links.between"},
                             {"nvlink.count", "cluster.links.bandwidth"},
                             {"xgmi.target", "cluster.links.between"},
                             {"xgmi.count", "cluster.links.bandwidth"},
                             {"pci.busid", "cluster.links.between"},
                             {"pci.class", "cluster.devices"},
                             {"pci.link_speed", "cluster.links.bandwidth"},
                             {"pci.link_width", "cluster.links.bandwidth"},
                             {"nic", "cluster.switches, between servers"},
                             {"net.name", "cluster.switches, between servers"},
                             {"net.speed", "cluster.links.bandwidth, between servers"},
                             {"cpu.arch", "cluster.links.bandwidth"},
                             {"cpu.vendor", "cluster.links.bandwidth"},
                             {"cpu.modelid", "cluster.links.bandwidth"}});
constexpr auto kIgnoredOfXml = std::to_array<SettledRow>(
    {{"system.version", Fate::ignored, "is the version of the file's form"},
     {"cpu.numaid cpu.affinity cpu.host_hash cpu.familyid", Fate::ignored,
      "names a processor, and links follow from the elements inside it"},
     {"pci.vendor pci.device pci.subsystem_vendor pci.subsystem_device nvlink.tclass xgmi.tclass",
      Fate::ignored, "names a part whose class or element says what it is"},
     {"gpu.rank gpu.gdr net.dev net.port net.guid net.latency net.maxconn net.gdr net.coll net.keep",
      Fate::ignored, "concerns how NCCL uses the card, not how fast its link is"}});

tl::expected<Settings, std::string> settings_of_xml(const std::string& text) {
  Tree document;
  try {
    std::istringstream stream(text);
    boost::property_tree::read_xml(stream, document, boost::property_tree::xml_parser::no_comments);
  } catch (const boost::property_tree::xml_parser_error& fault) {
    return tl::unexpected(fmt::format("{}: not valid XML: {}", fault.line(), fault.message()));
  }
  ValuesByKey values;
  add_elements(document, values);
  Settings settings = values.settings();
  take_rows(settings, kTakenOfXml);
  for (const std::string link : {"nvlink", "xgmi"}) {
    if (joins_others(document, link)) continue;
    for (const std::string key : {".target", ".count"})
      settings.ignore(link + key, "belongs to links that have their own GPU as target, which join no GPUs");
  }
  settings.settle(kIgnoredOfXml);
  return settings;
}

// --- the matrix of nvidia-smi topo -m ---------------------------------------------------------------------

/// The contents of a matrix that `nvidia-smi topo -m` prints. They are the devices in its header, its columns
/// about processors, and the number of cells for each word (such as "NV18").
struct MatrixParts {
  std::vector<std::string> names;
  std::vector<std::string> columns;
  std::map<std::string, int> cells;
};

MatrixParts parts_of_matrix(const std::string& text) {
  MatrixParts parts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = matrix_words(line);
    if (parts.names.empty() && !words.empty() && words[0] == "GPU0") {
      parts.names = matrix_names(words);
      for (const char* column : {"CPU Affinity", "NUMA Affinity", "GPU NUMA ID"}) {
        if (line.find(column) != std::string::npos) parts.columns.emplace_back(column);
      }
    } else if (words.size() > parts.names.size() &&
               std::ranges::find(parts.names, words[0]) != parts.names.end()) {
      for (std::size_t i = 1; i <= parts.names.size(); ++i) {
        if (words[i] != "X") ++parts.cells[words[i]];
      }
    }
  }
  return parts;
}

Settings settings_of_matrix(const std::string& text) {
  const MatrixParts parts = parts_of_matrix(text);
  std::vector<std::string> cards;
  for (const std::string& name : parts.names) {
    if (!name.starts_with("GPU")) cards.push_back(name);
  }
  Settings settings;
  settings.add("GPU", fmt::format("{}", parts.names.size() - cards.size()));
  settings.take("GPU", "cluster.devices");
  if (!cards.empty()) {
    settings.add("network cards", fmt::format("{}", fmt::join(cards, ", ")));
    settings.take("network cards", "cluster.switches, between servers");
  }
  for (const auto& [word, count] : parts.cells) {
    settings.add(word, fmt::format("in {} cells", count));
    settings.take(word, "cluster.links");
  }
  for (const std::string& column : parts.columns) {
    settings.add(column, "a column");
    settings.ignore(column, "says which processor is near, which the cells say as well");
  }
  return settings;
}

// --- a network of ASTRA-sim -------------------------------------------------------------------------------

constexpr auto kTakenOfAstraSim = std::to_array<TakenRow>({{"topology", "cluster.links.between"},
                                                           {"npus_count", "cluster.devices"},
                                                           {"bandwidth", "cluster.links.bandwidth"},
                                                           {"latency", "cluster.links.latency"}});

/// Returns the YAML document in `text`. `override_key` is KEY if the text comes from `--set KEY=VALUE`, and
/// empty for a file.
tl::expected<Node, std::string> document_of(const std::string& name, const std::string& text,
                                            const std::string& override_key = "") {
  return parse_document(text, std::make_shared<const Source>(
                                  Source{.name = name, .directory = {}, .override_key = override_key}));
}

tl::expected<Settings, std::string> settings_of(MachineFormat format, const ImportInput& input) {
  if (format == MachineFormat::nccl_xml) return settings_of_xml(input.text);
  if (format == MachineFormat::topo_matrix) return settings_of_matrix(input.text);
  const auto document = document_of(input.name, input.text);
  if (!document) return tl::unexpected(document.error());
  Settings settings;
  settings.add_document(*document);
  take_rows(settings, kTakenOfAstraSim);
  return settings;
}

/// Returns the keys that the user states in addition to the file, as the YAML text of `cluster: {machine:
/// FILE, ..}`. Returns an error if a flag or key does not belong to a cluster.
tl::expected<std::string, std::string> stated_cluster(const ImportRequest& request) {
  std::string text = fmt::format("machine: {}\n", scalar_to_yaml(request.inputs.front().name));
  for (const auto& [is_stated, flag] :
       {std::pair(!request.device.empty(), "--device"), std::pair(!request.model.empty(), "--model"),
        std::pair(request.layers.has_value(), "--layers"),
        std::pair(request.devices.has_value(), "--devices")}) {
    if (is_stated) {
      return tl::unexpected(fmt::format(
          "{} does not go with the file of a machine, which has devices and links; state --set "
          "cluster.nodes=N, cluster.memory=80GB and other keys of `cluster: {{machine: FILE}}` instead",
          flag));
    }
  }
  if (request.nodes) text += fmt::format("nodes: {}\n", *request.nodes);
  for (const Override& change : request.stated) {
    constexpr std::string_view kCluster = "cluster.";
    if (!change.key.starts_with(kCluster)) {
      return tl::unexpected(
          fmt::format("--set {}: expected a key of `cluster: {{machine: FILE}}`, such as cluster.nvlink, "
                      "because the file of a machine becomes this part alone",
                      change.key));
    }
    text += fmt::format("{}: {}\n", change.key.substr(kCluster.size()), change.value);
  }
  return text;
}

}  // namespace

tl::expected<Imported, std::string> import_machine(const ImportRequest& request, const ImportInput& input,
                                                   MachineFormat format) {
  if (request.inputs.size() > 1) {
    return tl::unexpected(fmt::format("{}: this is {}, which is imported alone; leave the other files out",
                                      input.name, title_of(format)));
  }
  const auto settings = settings_of(format, input);
  if (!settings) return tl::unexpected(fmt::format("{}:{}", input.name, settings.error()));
  const auto stated = stated_cluster(request);
  if (!stated) return tl::unexpected(fmt::format("{}: {}", input.name, stated.error()));
  const auto node = document_of(input.name, *stated, "cluster");
  if (!node) return tl::unexpected(node.error());
  Problem problem;
  const ClusterSpec spec = machine_cluster(*node, input.name, input.text, problem);
  if (problem.found()) return tl::unexpected(problem.message());
  auto yaml = cluster_to_yaml(spec);
  if (!yaml) return tl::unexpected(fmt::format("{}: {}", input.name, yaml.error()));
  return Imported{.importer = std::string(title_of(format)),
                  .yaml = *std::move(yaml),
                  .keys = settings->report(request.ignore),
                  .notes = spec.notes};
}

}  // namespace penstock
