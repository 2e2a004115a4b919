// Prints the page of a plan, for the test that runs it:  timeline_page_sample PLAN
// Without a plan: of one with about 100,000 tasks, in the shape that the mobius strategy makes.
#include <cstdio>
#include <exception>

#include "plan/sample_plans.h"
#include "report/html.h"

namespace {

ferry::Plan large_plan() {
  ferry::SampleShape shape;
  shape.layers = 96;
  shape.blocks_per_stage = 8;
  shape.devices = 4;
  shape.micro_batches = 120;
  return ferry::sample_mobius(shape);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const ferry::Plan plan = argc > 1 ? ferry::read_plan(argv[1]) : large_plan();
    std::fputs(ferry::to_html(plan, ferry::simulate(plan)).c_str(), stdout);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
