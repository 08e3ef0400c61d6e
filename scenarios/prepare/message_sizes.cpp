// Compares the sizes that the two ends of a message state. The size of a SEND is stated for the stage that
// computes the tensor. The receiving stage of a runtime may allocate its buffer earlier, from its own shapes.
// If the two sizes differ, a transport hangs or cuts the tensor:
//
//   stage 0  activation: 4 MB  --0SEND_F0-->  1RECV_F0  stage 1  expected_activation: 2 MB
//
// Tested by slices_test.cpp.

#include "scenarios/prepare/message_sizes.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/cut.hpp"
#include "scenarios/prepare/model_stages.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

namespace {

/// Returns the model stage of each program stage. A model stage with buckets is several program stages.
std::vector<std::int32_t> model_stages(const StageCut& cut, std::int32_t stages) {
  std::vector<std::int32_t> numbers;
  for (std::int32_t stage = 0; stage < stages && cut.buckets.empty(); ++stage) numbers.push_back(stage);
  for (std::size_t stage = 0; stage < cut.buckets.size(); ++stage)
    numbers.insert(numbers.end(), index(cut.buckets[stage]), static_cast<std::int32_t>(stage));
  return numbers;
}

/// A SEND and the size that its RECV expects.
struct Message {
  Action send;
  Bytes sent = 0;
  Bytes expected = 0;
  const PerStage<Bytes>* figure = nullptr;  ///< the figure that states `expected`
};

std::string fault_text(const Message& message, const Program& program) {
  const Action& send = message.send;
  Action receive = send;
  receive.kind = send.kind == ActionKind::send_forward ? ActionKind::recv_forward : ActionKind::recv_backward;
  std::swap(receive.stage, receive.peer);
  return fmt::format(
      "{}: the two ends of a message state unlike sizes: {} on rank {} sends {} B, and {} on rank {} expects "
      "{} B; make both equal",
      message.figure->place, to_text(send), program.placement.rank_of(send.stage, send.microbatch),
      message.sent, to_text(receive), program.placement.rank_of(send.peer, send.microbatch),
      message.expected);
}

/// Compares the two ends of the messages of a program.
class BothEnds {
 public:
  /// `figures` must hold for whole microbatches. All arguments must outlive this object.
  BothEnds(const StageFigures& figures, const StageCut& cut, Scaling samples, const Program& program,
           const CostTable& costs)
      : figures_(figures),
        stages_(model_stages(cut, program.stage_count())),
        program_(program),
        costs_(costs),
        numbers_(program),
        scale_(samples) {}

  /// Returns the error for the message of a unit over an edge, or nothing if both ends agree.
  std::optional<std::string> fault(const StageEdge& edge, Flow flow, std::int32_t unit) {
    const bool goes_on = flow == Flow::activation;
    const PerStage<Bytes>& figure = goes_on ? figures_.expected_activation : figures_.expected_gradient;
    const std::int32_t from = goes_on ? edge.from : edge.to;
    const std::int32_t to = goes_on ? edge.to : edge.from;
    if (!figure.given() || !carries(program_.placement, edge, flow) || !is_message(from, to, unit))
      return std::nullopt;
    const Action send{.kind = goes_on ? ActionKind::send_forward : ActionKind::send_backward,
                      .stage = from,
                      .microbatch = unit,
                      .peer = to};
    const PerStage<Bytes> at_unit = figure.at_unit(index(unit), index(program_.slices));
    const Message message{.send = send,
                          .sent = transfer_bytes(costs_, numbers_, send),
                          .expected = scale_(at_unit.of(stages_[index(to)], 0)),
                          .figure = &figure};
    return message.sent == message.expected ? std::nullopt : std::optional(fault_text(message, program_));
  }

 private:
  /// Returns true if the two stages exchange a message. They do if they are on different ranks and are not
  /// buckets of one model stage.
  bool is_message(std::int32_t from, std::int32_t to, std::int32_t unit) const {
    return stages_[index(from)] != stages_[index(to)] &&
           program_.placement.rank_of(from, unit) != program_.placement.rank_of(to, unit);
  }

  const StageFigures& figures_;
  std::vector<std::int32_t> stages_;
  const Program& program_;
  const CostTable& costs_;
  EdgeNumbers numbers_;
  Scaler scale_;
};

}  // namespace

std::optional<std::string> message_size_fault(const Model& model, const StageCut& cut, Scaling samples,
                                              const Program& program, const CostTable& costs) {
  const auto* stated = std::get_if<StageFigures>(&model);
  if (stated == nullptr) return std::nullopt;
  if (!stated->expected_activation.given() && !stated->expected_gradient.given()) return std::nullopt;
  const auto figures = stated->as_of_microbatches(program.slices);
  if (!figures) return figures.error();
  samples.own *= program.slices;
  BothEnds ends(*figures, cut, samples, program, costs);
  const std::vector<StageEdge> edges = stage_edges(program);
  for (std::int32_t unit = 0; unit < program.unit_count(); ++unit) {
    for (const StageEdge& edge : edges) {
      if (auto fault = ends.fault(edge, Flow::activation, unit)) return fault;
      if (auto fault = ends.fault(edge, Flow::gradient, unit)) return fault;
    }
  }
  return std::nullopt;
}

}  // namespace penstock
