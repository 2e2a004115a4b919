#include "report/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/packed_numbers.h"

namespace ferry {
namespace {

TEST(JsonText, CommasAndBracketsAreItsOwn) {
  JsonText json;
  json.object();
  json.string("name", "a");
  json.array("pairs");
  json.array();
  json.number(0.1);
  json.integer(-2);
  json.end();
  json.array();
  json.end();
  json.end();
  json.object("inner");
  json.integer("n", 9007199254740993);
  json.end();
  json.end();
  EXPECT_EQ(json.take(), R"({"name":"a","pairs":[[0.1,-2],[]],"inner":{"n":9007199254740993}})");
}

TEST(JsonText, NoTextCanEndTheScriptThatHoldsIt) {
  JsonText json;
  json.array();
  json.string("</script>\n\"\\<!--");
  json.end();
  const std::string text = json.take();
  EXPECT_EQ(text.find('<'), std::string::npos);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(text)[0], "</script>\n\"\\<!--");
}

TEST(PackedNumbers, SmallOnesTakeOneCharacter) {
  PackedNumbers numbers;
  for (const int number : {0, 1, -1, 15, -15, 16}) numbers.add(number);
  EXPECT_EQ(numbers.take(), "ACDefgB");
}

}  // namespace
}  // namespace ferry
