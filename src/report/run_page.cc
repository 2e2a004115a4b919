#include "report/run_page.h"

#include "report/json_text.h"
#include "report/pages.h"

namespace ferry {
namespace {

constexpr std::size_t kDrawnSteps = 4000;  // of each curve: a few per pixel

template <typename Member>
void write_curve(JsonText& json, const char* name, const std::vector<RunStep>& steps,
                 Member RunStep::*member) {
  json.line();
  json.array(name);
  for (const RunStep& step : steps) json.number(static_cast<double>(step.*member));
  json.end();
}

void write_curves(const RunHistory& history, JsonText& json) {
  const std::vector<RunStep> steps = drawn_steps(history.steps, kDrawnSteps);
  json.object("curves");
  write_curve(json, "step", steps, &RunStep::step);
  write_curve(json, "loss", steps, &RunStep::loss);
  write_curve(json, "lr", steps, &RunStep::lr);
  write_curve(json, "grad_norm", steps, &RunStep::grad_norm);
  write_curve(json, "tokens_per_second", steps, &RunStep::tokens_per_second);
  write_curve(json, "stall", steps, &RunStep::stall);
  json.end();
  json.array("evaluations");
  for (const RunEvaluation& one : history.evaluations) {
    json.array();
    json.integer(one.step);
    json.number(one.loss);
    json.end();
  }
  json.end();
}

void write_tables(const RunHistory& history, JsonText& json) {
  json.array("comparison");
  for (const RunComparison& row : history.comparison) {
    json.object();
    json.string("what", row.what);
    json.string("predicted", row.predicted);
    json.string("measured", row.measured);
    if (row.ratio) json.number("ratio", *row.ratio);
    json.end();
  }
  json.end();
  json.array("facts");
  for (const auto& [name, value] : history.facts) {
    json.array();
    json.string(name);
    json.string(value);
    json.end();
  }
  json.end();
}

}  // namespace

std::string to_html(const RunHistory& history) {
  JsonText json;
  json.object();
  json.string("name", history.name);
  json.integer("steps", static_cast<std::int64_t>(history.steps.size()));
  json.string("timeline", history.timeline);
  write_tables(history, json);
  write_curves(history, json);
  json.end();
  std::string page(kRunPage.before_data);
  page += json.take();
  page += kRunPage.after_data;
  return page;
}

}  // namespace ferry
