#include "report/html.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "plan/at_home.h"
#include "plan/sample_plans.h"

namespace ferry {
namespace {

// What the page carries between its data element's tags.
nlohmann::json data_of(const std::string& page) {
  const std::string opening = R"(<script type="application/json" id="data">)";
  const std::size_t begin = page.find(opening) + opening.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

std::size_t occurrences(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(Html, ThePageCarriesTheFiguresOfTheReports) {
  SampleShape shape;
  shape.devices = 2;
  const Plan plan = sample_mobius(shape);
  const Simulation simulation = simulate(plan, 3);
  const auto data = data_of(to_html(plan, simulation));

  EXPECT_EQ(data.at("strategy"), plan.strategy);
  EXPECT_DOUBLE_EQ(data.at("step_seconds"), simulation.step.seconds());
  EXPECT_EQ(data.at("steps"), 3);
  ASSERT_EQ(data.at("resources").size(), plan.resources.size());
  ASSERT_EQ(data.at("places").size(), plan.places.size());
  EXPECT_EQ(data.at("places")[0].at("peak"), simulation.peak[0].count);
  EXPECT_EQ(data.at("bandwidth_cdf").back()[1], 1.0);
  const std::string names = data.at("names");
  EXPECT_EQ(occurrences(names, "\n") + 1, plan.tasks.size());
  EXPECT_EQ(names.substr(0, names.find('\n')), plan.tasks[0].name);
}

TEST(Html, WhatIsAtHomeIsApartFromWhatPasses) {
  const Plan plan = sample_mobius({});
  const auto data = data_of(to_html(plan, simulate(plan, 2)));
  for (const PlaceId p : plan.places.ids()) {
    const auto& place = data.at("places")[p.index()];
    EXPECT_EQ(place.at("at_home"), bytes_at_home(plan)[p].count);
    if (plan.places[p].kind != PlaceKind::host) continue;
    EXPECT_TRUE(place.at("levels").contains("home S"));
    EXPECT_FALSE(place.at("levels").contains("S"));
    EXPECT_TRUE(place.at("levels").contains("A"));
  }
}

TEST(Html, NoNameLeavesTheData) {
  const Plan plan = parse_plan(
      "ferry-plan 1\nstrategy </script><b>\n"
      "step train micro_batches=1 micro_batch_size=1 sequence=1 precision=fp32\n"
      "place host kind=host budget=0 workspace=0\n"
      "resource <!--load kind=host place=host\n"
      "task </script><script>alert(1) kind=load on=<!--load micros=2\n",
      "test");
  const std::string page = to_html(plan, simulate(plan, 1));
  EXPECT_EQ(occurrences(page, "</script>"), 2U);  // of the data and of the script
  EXPECT_EQ(occurrences(page, "<script"), 2U);
  EXPECT_EQ(occurrences(page, "<!--"), 0U);
  EXPECT_EQ(data_of(page).at("names"), "</script><script>alert(1)");
  EXPECT_EQ(data_of(page).at("strategy"), "</script><b>");
}

TEST(Html, ThePageNeedsNoNetwork) {
  const Plan plan = sample_resident({});
  const std::string page = to_html(plan, simulate(plan, 2));
  for (const char* word : {"http:", "https:", "src=", "href=", "@import", "url(", "fetch("}) {
    EXPECT_EQ(occurrences(page, word), 0U) << word;
  }
}

TEST(Html, EqualPlansGiveEqualPages) {
  const Plan plan = sample_mobius({});
  EXPECT_EQ(to_html(plan, simulate(plan)), to_html(plan, simulate(plan)));
}

}  // namespace
}  // namespace ferry
