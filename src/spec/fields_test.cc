#include "spec/fields.h"

#include <gtest/gtest.h>

#include <ctime>
#include <limits>

#include "base/error.h"
#include "spec/nearest.h"
#include "spec/quantity.h"

namespace ferry {
namespace {

TEST(Quantity, WholeNumbersAreDecimalAndComplete) {
  EXPECT_EQ(parse_whole("42"), 42);
  EXPECT_EQ(parse_whole("-3"), -3);
  EXPECT_EQ(parse_whole("0"), 0);
  for (const char* text :
       {"", "010", "-01", "0x1", "1_0", "+1", "1.0", "1 ", "99999999999999999999"}) {
    EXPECT_EQ(parse_whole(text), std::nullopt) << text;
  }
}

TEST(Quantity, ANumberWithAUnitIsReadInTheBaseUnit) {
  EXPECT_EQ(parse_quantity("12.5 ms", time_units()), 12500);
  EXPECT_EQ(parse_quantity("200MB/s", rate_units()), 200e6);
  EXPECT_EQ(parse_quantity("2.5 G parameters/s", parameter_units()), 2.5e9);
  for (const char* text : {"12.5", "ms", "1e400 s", "1 min", "inf s", "1 s s", "01 s"}) {
    EXPECT_EQ(parse_quantity(text, time_units()), std::nullopt) << text;
  }
}

TEST(Quantity, WrittenNumbersReadBackExactly) {
  for (const double value : {0.0, 1.0, 12500.0, 1e6 / 3, 1e-7, 123456789.125, 1e15, 4e-320}) {
    EXPECT_EQ(parse_real(real_text(value)), value);
    EXPECT_EQ(parse_quantity(quantity_text(value, time_units()), time_units()), value);
  }
  EXPECT_EQ(quantity_text(12500, time_units()), "12.5 ms");
  EXPECT_EQ(quantity_text(13e9, rate_units()), "13 GB/s");
  EXPECT_EQ(quantity_text(0, time_units()), "0 us");
  EXPECT_EQ(bytes_text(64_MiB), "64 MiB");
  EXPECT_EQ(bytes_text(1000_B), "1000 B");
}

TEST(Nearest, ASwapOfNeighboursIsOneMistake) {
  EXPECT_EQ(edit_distance("micro", "mirco"), 1);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(Nearest, AWordThatIsFarFromAllHasNoNeighbour) {
  const std::vector<std::string> known = {"device", "host"};
  EXPECT_EQ(nearest("devcie", known), "device");
  EXPECT_EQ(nearest("xyzzy", known), "");
  EXPECT_EQ(nearest(std::string(100000, 'd'), known), "");
}

TEST(Document, TextsThatOtherReadersMistakeAreQuoted) {
  for (const char* text : {"out/base", "/abs/path", "a=b c"}) EXPECT_EQ(yaml_text(text), text);
  for (const char* text : {"", "yes", "Null", "1e5", "a: b", "a #b", "\"", "a\\b", "\n", "~", "-x",
                           "x ", "\x7f\x01", "*a", "{", "\xc3\xa4"}) {
    const std::string written = yaml_text(text);
    EXPECT_EQ(written.front(), '"') << text;
    EXPECT_EQ(parse_document(written, "x").text, text) << written;
  }
}

// 200,000 keys took 76 s when each was compared with all before it.
TEST(Document, ManyKeysAreReadInLinearTime) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "k" + std::to_string(i) + ": 1\n";
  const std::clock_t start = std::clock();  // of this process: the box may be busy
  EXPECT_EQ(parse_document(text, "x.yaml").children.size(), 200'000u);
  EXPECT_LT(std::clock() - start, 20 * CLOCKS_PER_SEC);  // about 0.3 s
  try {
    parse_document(text + "k7: 2\n", "x.yaml");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "x.yaml:200001: 'k7' is given twice; it stands on line 8 already");
  }
}

TEST(Document, MoreThanAMillionValuesAreRefused) {
  std::string text = "a: [0";
  for (int i = 0; i < 1'000'000; ++i) text += ",0";
  EXPECT_THROW(parse_document(text + "]", "x.yaml"), UserError);
}

TEST(Fields, AFieldOutOfItsBoundsIsNotSet) {
  int steps = 5;
  double fraction = 0.5;
  const std::vector<Field> fields = {
      {.name = "steps", .member = &steps, .least = 1, .most = 10},
      {.name = "fraction", .member = Real{&fraction}, .most = 1, .below_most = true}};
  for (const char* text : {"steps=0", "steps=11", "fraction=1", "fraction=-0.1"}) {
    EXPECT_THROW(apply_override(text, fields), UserError) << text;
  }
  EXPECT_EQ(steps, 5);
  EXPECT_EQ(fraction, 0.5);
  EXPECT_EQ(apply_override("steps=10", fields), "steps");
  EXPECT_EQ(steps, 10);
}

TEST(Fields, AnIntThatDoesNotFitIsRefused) {
  int index = 5;
  const std::vector<Field> fields = {{.name = "index", .member = &index}};
  EXPECT_THROW(apply_override("index=4294967296", fields), UserError);
  EXPECT_EQ(index, 5);
}

}  // namespace
}  // namespace ferry
