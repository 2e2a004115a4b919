#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace ferry {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_json(text, "x.json");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Json, IsReadAsWritten) {
  const std::string text = R"({"a":[1,-2,2.5,true,null,"x",[],{}],"b":{"c":18446744073709551615}})";
  EXPECT_EQ(parse_json(text, "").dump(), text);
}

TEST(Json, DeepNestingIsRefusedNotFollowed) {
  for (const std::string open : {"[", "{\"a\":"}) {
    std::string text;
    for (int level = 0; level < 100'000; ++level) text += open;
    EXPECT_EQ(refusal(text), "x.json: more than 64 levels of lists and objects");
  }
  EXPECT_EQ(refusal(std::string(64, '[') + std::string(64, ']')), "");
}

TEST(Json, AKeyThatComesTwiceIsRefused) {
  EXPECT_EQ(refusal(R"({"a":{"b":1},"c":{"b":1,"b":2}})"), "x.json: key \"b\" appears twice");
  EXPECT_EQ(refusal(R"({"a":1,"\u0061":2})"), "x.json: key \"a\" appears twice");
}

TEST(Json, NumbersBeyondADoubleAreRefused) {
  EXPECT_EQ(refusal("[1e999]"), "x.json: not JSON: number overflow parsing '1e999'");
}

TEST(Json, BrokenTextIsNamedWithItsPlaceAndAtShort) {
  EXPECT_EQ(refusal("[1,\n}").find("x.json: not JSON: parse error at line 2, column 1"), 0u);
  EXPECT_LT(refusal("[\"" + std::string(1'000'000, 'a')).size(), 400u);
  EXPECT_NE(refusal("[1] 2"), "");
  EXPECT_NE(refusal(""), "");
  using namespace std::string_literals;
  EXPECT_EQ(refusal("[1]\0 and more"s), "x.json: not JSON: byte 3 is 0");
}

TEST(Json, BytesThatAreNoUtf8AreReplacedInATextOfOurs) {
  EXPECT_EQ(json_text(nlohmann::json("a\xff")), "\"a\xef\xbf\xbd\"");
  EXPECT_EQ(json_text(nlohmann::ordered_json{{"b", 1}}, 2), "{\n  \"b\": 1\n}");
}

// A hundred thousand tensors, as a header has them: with nlohmann's own builder and a callback 145
// s.
TEST(Json, ManyMembersAreReadInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) {
    text += (i ? ",\"" : "\"") + std::to_string(i) + "\":{\"shape\":[1]}";
  }
  EXPECT_EQ(parse_json(text + "}", "").size(), 100'000u);
}

TEST(Json, MoreThanTenMillionValuesAreRefused) {
  std::string text = "[0";
  for (int i = 0; i < 10'000'000; ++i) text += ",0";
  EXPECT_EQ(refusal(text), "x.json: more than 10000000 values");
}

TEST(Json, ValuesAndNamesAreShownShort) {
  EXPECT_EQ(shown(nlohmann::json(std::string(100, 'a'))).size(), 60u);
  EXPECT_EQ(in_quotes("a\n"), "\"a\\n\"");
  const std::string quoted = in_quotes("b" + std::string(1'000'000, 'x') + "e");
  EXPECT_LT(quoted.size(), 300u);
  EXPECT_EQ(quoted.substr(0, 3) + quoted.substr(quoted.size() - 3), "\"bxxe\"");
}

}  // namespace
}  // namespace ferry
