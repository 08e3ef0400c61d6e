// A message consists of eight numbers that increase by 1 from its mark. The mark is a hash of all values that
// determine the message:
//
//   activation     0, giver, taker, microbatch, the giver's weight version
//   gradient       1, the same
//   contribution   2, stage, rank, how many reductions came before it (weights: -1)
//
// So a wrong microbatch, an old version, another rank's part or an incomplete copy give other numbers. A
// kernel makes the message, and another kernel copies it when it is used. The host compares the copies only
// after the run, so that comparing does not order operations of the run. A sum of n contributions increases
// by n from the sum of their marks.

#include "tests/backend/standin/traced_modules.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/cuda/launch_count.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/stage_module.hpp"
#include "backend/executor/transport.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "tests/backend/program_facts.hpp"
#include "tests/backend/standin/device_facts.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

constexpr std::int64_t kNumbers = 8;
constexpr std::size_t kBytes = kNumbers * sizeof(double);
static_assert(kBytes == kTracedMessage);

/// A memory pool of one stream, like in LibTorch's allocator. Freed memory is reused by later work of the
/// same stream.
class StreamPool {
 public:
  explicit StreamPool(std::int32_t device) : device_(device) {
    for (int i = 0; i < 64; ++i) free_.emplace_back(device, kBytes);
  }
  DeviceBuffer take() {
    if (free_.empty()) return {device_, kBytes};
    DeviceBuffer taken = std::move(free_.back());
    free_.pop_back();
    return taken;
  }
  void give_back(DeviceBuffer buffer) { free_.push_back(std::move(buffer)); }

 private:
  std::int32_t device_;
  std::vector<DeviceBuffer> free_;
};

struct Numbers : PayloadContent {
  Numbers(StreamPool& from) : pool(from), buffer(from.take()) {}
  ~Numbers() override {
    if (buffer.data() != nullptr) pool.give_back(std::move(buffer));
  }
  double* data() const { return borrowed != nullptr ? borrowed : static_cast<double*>(buffer.data()); }

  StreamPool& pool;
  mutable DeviceBuffer buffer;  // a mutant may free it too early
  double* borrowed = nullptr;   // memory of another rank, which a mutant reads in place
};

using Pools = std::map<cudaStream_t, std::unique_ptr<StreamPool>>;

/// The last packed memory of this thread, and the numbers that were packed into it.
thread_local std::pair<const void*, double*> last_packed;

class NumbersCodec : public DeviceCodec {
 public:
  explicit NumbersCodec(Pools& pools) : pools_(pools) {}
  DeviceLayout layout_of(const PayloadContent&) const override { return layout_of_text("numbers"); }
  DeviceLayout layout_of_text(const std::string& text) const override {
    // Three tensors, of three, three and two numbers.
    constexpr DeviceNumber kType = DeviceNumber::float64;
    return {
        .text = text,
        .runs = {{.type = kType, .bytes = 24}, {.type = kType, .bytes = 24}, {.type = kType, .bytes = 16}},
        .bytes = kBytes};
  }
  void pack(const PayloadContent& content, void* to, const StreamView& stream) const override {
    const auto& numbers = dynamic_cast<const Numbers&>(content);
    copy(numbers.data(), to, stream);
    last_packed = {to, numbers.data()};
    if (standin::breaks_on_purpose("a message's memory is given back at its send"))
      numbers.pool.give_back(std::move(numbers.buffer));
  }
  Payload unpack(const DeviceLayout&, const void* from, const StreamView& stream) const override {
    auto numbers = std::make_unique<Numbers>(*pools_.at(stream.stream));
    // A rank that unpacks what it packed itself brings a contribution from another device.
    if (last_packed.first == from && standin::breaks_on_purpose("contributions are read in place"))
      numbers->borrowed = last_packed.second;
    copy(from, numbers->buffer.data(), stream);
    return numbers;
  }

 private:
  static void copy(const void* from, void* to, const StreamView& stream) {
    ++launches_of_this_thread;
    check_cuda(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDefault, stream.stream), "cudaMemcpyAsync");
  }
  Pools& pools_;
};

/// Returns the mark of these values. No other values have the same mark.
double mark(std::initializer_list<std::int32_t> of) {
  std::uint64_t bits = 17;
  for (const std::int32_t number : of) bits = mixed(bits ^ static_cast<std::uint64_t>(number + 1));
  return static_cast<double>(bits >> 24);
}

/// The properties of the program that all modules use.
struct Facts {
  ProgramFacts program;
  StageNeighbours neighbours;
  std::map<std::int32_t, std::vector<std::int32_t>> ranks_of_stage;
};

class TracedModule : public StageModule {
 public:
  TracedModule(const Facts& facts, const Experiment& experiment, std::int32_t stage, std::int32_t rank,
               const CudaPlace& place, StreamPool& pool, std::int32_t kernels)
      : facts_(facts),
        costs_(experiment.costs),
        stage_(stage),
        rank_(rank),
        is_sharded_(experiment.program.sharding > 0),
        place_(place),
        pool_(pool),
        kernels_(kernels) {
    const std::int32_t units = experiment.program.unit_count() * experiment.program.iterations;
    seen_ = DeviceBuffer(place.stream.device, kBytes * static_cast<std::size_t>(8 * units + 64));
  }

  std::vector<Payload> forward(const ComputeCall& call, std::vector<Payload> inputs) override {
    const auto& from = givers_of(facts_.neighbours, stage_, Flow::activation);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::int32_t version = facts_.program.forward_version.at({from[i], call.action.microbatch});
      expect(*inputs[i], mark({0, from[i], stage_, call.action.microbatch, version}), call);
    }
    return outputs(call, Flow::activation);
  }
  std::vector<Payload> backward(const ComputeCall& call, std::vector<Payload> gradients) override {
    return backward_input(call, std::move(gradients));
  }
  std::vector<Payload> backward_input(const ComputeCall& call, std::vector<Payload> gradients) override {
    const auto& from = givers_of(facts_.neighbours, stage_, Flow::gradient);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const std::int32_t version = facts_.program.backward_version.at({from[i], call.action.microbatch});
      expect(*gradients[i], mark({1, from[i], stage_, call.action.microbatch, version}), call);
    }
    return outputs(call, Flow::gradient);
  }
  void backward_weight(const ComputeCall& call) override { hold(call); }
  void recompute(const ComputeCall& call) override { hold(call); }
  void step(const ComputeCall& call) override { hold(call); }
  void drop_version(std::int32_t) override {}

  /// Returns null if no microbatch has passed. A stage on LibTorch then has an empty list of tensors.
  Payload contribution(ActionKind kind) override {
    if (kind == ActionKind::reduce_grad && !has_microbatches(rank_)) return nullptr;
    const std::int32_t number = kind == ActionKind::unshard ? -1 : reductions_;
    return counted(mark({2, stage_, rank_, number}));
  }
  void accept(ActionKind kind, std::span<const SharedPayload> contributions) override {
    const bool gathers = kind == ActionKind::unshard;
    const std::int32_t number = gathers ? -1 : reductions_++;
    const std::vector<std::int32_t>& ranks = facts_.ranks_of_stage.at(stage_);
    double sum = 0;
    std::size_t members = 0;
    for (std::size_t i = 0; i < contributions.size(); ++i) {
      if (contributions[i] == nullptr) continue;
      ++members;
      if (contributions.size() == ranks.size()) {
        keep(*contributions[i], mark({2, stage_, ranks[i], number}), 1,
             fmt::format("part {} of stage {}", i, stage_));
      }
    }
    if (contributions.size() == ranks.size() || gathers || members == 0) return;
    for (const std::int32_t rank : contributing()) sum += mark({2, stage_, rank, number});
    keep(*contributions[0], sum, static_cast<double>(contributing().size()),
         fmt::format("sum {} of stage {}", number, stage_));
    if (!is_sharded_) return;
    const auto own = std::ranges::find(ranks, rank_) - ranks.begin();
    const std::int64_t part = (kNumbers + std::ssize(ranks) - 1) / std::ssize(ranks);
    expected_.back().begin = own * part;
    expected_.back().end = std::min<std::int64_t>(kNumbers, (own + 1) * part);
  }
  void reshard() override {}

  /// Throws at the first message with wrong numbers. Waits until the stream has ended.
  void compare() const {
    wait_for(place_.stream, {.stopped = {}, .deadline = std::chrono::seconds(10)});
    std::vector<double> numbers(static_cast<std::size_t>(kNumbers) * expected_.size());
    if (numbers.empty()) return;
    check_cuda(
        cudaMemcpy(numbers.data(), seen_.data(), numbers.size() * sizeof(double), cudaMemcpyDeviceToHost),
        "cudaMemcpy");
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const Expected& one = expected_[i / kNumbers];
      const auto place = static_cast<std::int64_t>(i % kNumbers);
      const double right = one.first + one.step * static_cast<double>(place);
      if (place < one.begin || place >= one.end || numbers[i] == right) continue;
      throw std::runtime_error(fmt::format("{} on rank {}: number {} is {}, expected {}", one.what, rank_,
                                           i % kNumbers, numbers[i], right));
    }
  }

 private:
  struct Expected {
    double first;
    double step;
    std::string what;
    std::int64_t begin = 0;
    std::int64_t end = kNumbers;
  };

  bool has_microbatches(std::int32_t rank) const {
    return std::ranges::any_of(facts_.program.rank, [&](const auto& one) {
      return one.first.first == stage_ && one.second == rank;
    });
  }
  /// Returns the ranks of the stage that contribute a gradient.
  std::vector<std::int32_t> contributing() const {
    std::vector<std::int32_t> ranks = facts_.ranks_of_stage.at(stage_);
    std::erase_if(ranks, [this](std::int32_t rank) { return !has_microbatches(rank); });
    return ranks;
  }

  Payload counted(double first) const {
    auto made = std::make_unique<Numbers>(pool_);
    use_device(place_.stream.device);
    launch_count_up(made->data(), kNumbers, first, place_.stream.stream);
    return made;
  }

  std::vector<Payload> outputs(const ComputeCall& call, Flow flow) {
    hold(call);
    std::vector<Payload> made;
    const std::int32_t kind = flow == Flow::gradient ? 1 : 0;
    for (const std::int32_t to : takers_of(facts_.neighbours, stage_, flow)) {
      made.push_back(counted(mark({kind, stage_, to, call.action.microbatch, call.action.weight_version})));
    }
    return made;
  }

  void hold(const ComputeCall& call) const {
    if (!call.first_of_group) return;
    use_device(place_.stream.device);
    for (std::int32_t kernel = 1; kernel < kernels_; ++kernel) launch_hold(0, place_.stream.stream);
    launch_hold(static_cast<std::uint64_t>(group_duration_ns(costs_, call.group)), place_.stream.stream);
  }

  void expect(const PayloadContent& content, double first, const ComputeCall& call) {
    keep(content, first, 1, to_text(call.action));
  }

  void keep(const PayloadContent& content, double first, double step, std::string what) {
    auto* to = static_cast<double*>(seen_.data()) + kNumbers * static_cast<std::int64_t>(expected_.size());
    use_device(place_.stream.device);
    launch_copy(dynamic_cast<const Numbers&>(content).data(), to, kBytes / 16, 1, place_.stream.stream);
    expected_.push_back({first, step, std::move(what)});
  }

  const Facts& facts_;
  const CostTable& costs_;
  std::int32_t stage_;
  std::int32_t rank_;
  bool is_sharded_;
  CudaPlace place_;
  StreamPool& pool_;
  std::int32_t kernels_;
  DeviceBuffer seen_;
  std::vector<Expected> expected_;
  std::int32_t reductions_ = 0;
};

class TracedFamily : public ModuleFamily {
 public:
  TracedFamily(const Experiment& experiment, std::vector<std::optional<CudaPlace>> places,
               std::shared_ptr<Pools> pools, std::int32_t kernels)
      : experiment_(experiment), places_(std::move(places)), pools_(std::move(pools)), kernels_(kernels) {
    const Program& program = experiment.program;
    facts_ = {.program = facts_of(program), .neighbours = stage_neighbours(program), .ranks_of_stage = {}};
    for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
      facts_.ranks_of_stage[stage] = program.placement.stages[index(stage)].ranks;
      std::ranges::sort(facts_.ranks_of_stage[stage]);
    }
  }

  std::string description() const override { return "traced"; }
  StageModules modules(std::optional<std::int32_t>, const Clock&) const override {
    const Program& program = experiment_.program;
    StageModules modules(index(program.rank_count()));
    for (auto& of_rank : modules) of_rank.resize(index(program.stage_count()));
    for (const auto& [stage, ranks] : facts_.ranks_of_stage) {
      for (const std::int32_t rank : ranks) {
        const auto& place = places_[index(rank)];
        if (!place) continue;
        modules[index(rank)][index(stage)] = std::make_unique<TracedModule>(
            facts_, experiment_, stage, rank, *place, *pools_->at(place->stream.stream), kernels_);
      }
    }
    return modules;
  }
  RankAccount account(std::int32_t rank, const StageModules& modules) const override {
    for (const auto& module : modules[index(rank)]) {
      if (module != nullptr) dynamic_cast<const TracedModule&>(*module).compare();
    }
    return {};
  }

 private:
  const Experiment& experiment_;
  std::vector<std::optional<CudaPlace>> places_;
  std::shared_ptr<Pools> pools_;
  std::int32_t kernels_;
  Facts facts_;
};

/// A codec that also owns the pools.
class OwningCodec : public NumbersCodec {
 public:
  explicit OwningCodec(std::shared_ptr<Pools> pools) : NumbersCodec(*pools), pools_(std::move(pools)) {}

 private:
  std::shared_ptr<Pools> pools_;
};

}  // namespace

Experiment traced_experiment(const std::string& schedule, const Shape& shape, Ns forward_ns) {
  Experiment made =
      uniform_experiment(schedule, shape, {.forward_ns = forward_ns, .backward_ns = 2 * forward_ns});
  for (StageCost& stage : made.costs.stages) stage.gradients = stage.weights = kTracedMessage;
  for (EdgeCost& edge : made.costs.edges) edge = {.activation = kTracedMessage, .gradient = kTracedMessage};
  return made;
}

MakeCudaModules traced(const Experiment& experiment, std::int32_t kernels) {
  return [&experiment, kernels](const std::vector<std::optional<CudaPlace>>& places) {
    auto pools = std::make_shared<Pools>();
    for (const auto& place : places) {
      if (place) pools->emplace(place->stream.stream, std::make_unique<StreamPool>(place->stream.device));
    }
    return CudaModules{.family = std::make_unique<TracedFamily>(experiment, places, pools, kernels),
                       .codec = std::make_unique<OwningCodec>(pools)};
  };
}

}  // namespace penstock
