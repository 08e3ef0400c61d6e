// Who comes from another program types its names:
//
//   penstock simulate --pipeline-model-parallel-size 4    ->    penstock simulate --pp-size 4
//
// A name stands here where it means the very same number. They are taken by every command that takes ours,
// and are left out of the help, which would be twice as long.

#include "cli/other_names.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {
namespace {

struct OtherName {
  std::string_view theirs;
  std::string_view ours;
};

constexpr std::array<OtherName, 18> kOtherNames = {{
    {"--pipeline-model-parallel-size", "--pp-size"},
    {"--pipeline-parallel-size", "--pp-size"},
    {"--parallelism.pipeline_parallel_degree", "--pp-size"},
    {"--num-virtual-stages-per-pipeline-rank", "--virtual-stages"},
    {"--virtual-pipeline-model-parallel-size", "--virtual-stages"},
    {"--data-parallel-size", "--data-parallel"},
    {"--parallelism.data_parallel_replicate_degree", "--data-parallel"},
    {"--parallelism.pipeline_parallel_microbatch_size", "--micro-batch-size"},
    {"--training.global_batch_size", "--global-batch-size"},
    {"--seq-length", "--sequence"},
    {"--training.seq_len", "--sequence"},
    {"--tensor-model-parallel-size", "--tensor-parallel"},
    {"--tensor-parallel-size", "--tensor-parallel"},
    {"--parallelism.tensor_parallel_degree", "--tensor-parallel"},
    {"--context-parallel-size", "--context-parallel"},
    {"--parallelism.context_parallel_degree", "--context-parallel"},
    {"--expert-model-parallel-size", "--expert-parallel"},
    {"--parallelism.expert_parallel_degree", "--expert-parallel"},
}};

}  // namespace

std::vector<std::string> with_our_names(std::span<const char* const> arguments,
                                        const std::function<bool(std::string_view)>& takes) {
  std::vector<std::string> translated(arguments.begin(), arguments.end());
  for (std::string& argument : translated) {
    if (argument == "--") break;
    const std::string flag = argument.substr(0, argument.find('='));
    const auto* const found = std::ranges::find(kOtherNames, flag, &OtherName::theirs);
    if (found != kOtherNames.end() && takes(found->ours)) argument.replace(0, flag.size(), found->ours);
  }
  return translated;
}

}  // namespace penstock
