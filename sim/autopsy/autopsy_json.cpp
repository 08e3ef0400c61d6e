// Writes an autopsy as JSON. The document is a measured result with its timeline, so that `compare`,
// `explain` and `diff` can read it. The keys of the autopsy follow those of the result. Tests:
// tests/sim/autopsy_test.cpp.

#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "report/print/text_sink.hpp"
#include "report/result/result_json.hpp"
#include "report/why/explanation.hpp"
#include "sim/autopsy/autopsy.hpp"
#include "sim/autopsy/recorded_run.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
Json value_or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json difference_json(const ListDifference& difference) {
  return {{"rank", difference.rank.rank},
          {"position", difference.position},
          {"ran", text_or_null(difference.ran)},
          {"meant", text_or_null(difference.meant)},
          {"start_ns", difference.start_ns}};
}

Json step_json(const StepVerdict& step) {
  Json differences = Json::array();
  const ListDifference* first = nullptr;
  for (const ListDifference& difference : step.differences) {
    differences.push_back(difference_json(difference));
    if (first == nullptr || difference.start_ns < first->start_ns) first = &difference;
  }
  return {{"step", step.step},
          {"copy", step.copy},
          {"as_meant", value_or_null(step.as_meant)},
          {"first_difference", first == nullptr ? Json(nullptr) : difference_json(*first)},
          {"differences", std::move(differences)},
          {"measured_ns", step.measured_ns},
          {"replayed_ns", step.replayed_ns},
          {"without_gaps_ns", step.without_gaps_ns},
          {"stage_means_ns", step.stage_means_ns}};
}

Json blame_json(const Blame& blame) {
  return {{"cause", to_text(blame.cause)},
          {"step", blame.step},
          {"rank", blame.rank ? Json(blame.rank->rank) : Json(nullptr)},
          {"stage", value_or_null(blame.stage)},
          {"copy", blame.rank ? Json(blame.rank->copy) : Json(nullptr)},
          {"microbatch", value_or_null(blame.microbatch)},
          {"action", text_or_null(blame.action)},
          {"ns", blame.ns},
          {"without_ns", value_or_null(blame.without_ns)},
          {"detail", blame.detail}};
}

Json bill_json(const Explanation& why) {
  Json causes = Json::array();
  for (const BillLine& line : why.bill) {
    Json items = Json::array();
    for (const CauseItem& item : line.items)
      items.push_back({{"item", item.item}, {"makespan_ns", item.makespan_ns}});
    causes.push_back({{"cause", line.cause},
                      {"idle_ns", line.idle_ns},
                      {"without_ns", value_or_null(line.without_ns)},
                      {"alone_ns", value_or_null(line.alone_ns)},
                      {"items", std::move(items)}});
  }
  return {{"makespan_ns", why.makespan_ns},
          {"busy_mean_ns", why.busy_ns / why.ranks},
          {"ideal_ns", why.ideal_ns},
          {"bound_ns", why.bound_ns},
          {"causes", std::move(causes)}};
}

}  // namespace

void write_autopsy_json(const Autopsy& autopsy, const TextSink& sink) {
  std::string text = result_to_json(autopsy.result, {.timeline = true});
  // The closing brace of the result is removed, so that the keys of the autopsy can follow in the same
  // object.
  text.erase(text.find_last_not_of("}\n \t") + 1);
  const bool is_batched = autopsy.waiting == Waiting::batched;
  const auto own = Json(autopsy.unexplained_ns);
  const Json other = value_or_null(autopsy.other_unexplained_ns);
  Json keys = {{"steps", Json::array()},
               {"meant", text_or_null(autopsy.was_meant ? autopsy.schedule : "")},
               {"waiting",
                {{"reading", to_text(autopsy.waiting)},
                 {"ahead_unexplained_ns", is_batched ? other : own},
                 {"batched_unexplained_ns", is_batched ? own : other}}},
               {"explained_step", autopsy.explained_step},
               {"slowdown", autopsy.slowdown},
               {"bill", bill_json(autopsy.why)},
               {"blame", Json::array()}};
  for (const StepVerdict& step : autopsy.steps) keys["steps"].push_back(step_json(step));
  for (const Blame& blame : autopsy.blame) keys["blame"].push_back(blame_json(blame));
  const std::string own_keys = keys.dump(2, ' ', false, Json::error_handler_t::replace);
  // The opening brace of the new keys is dropped, because they continue the object of the result.
  text += ',' + own_keys.substr(1) + '\n';
  sink(text);
}

}  // namespace penstock
