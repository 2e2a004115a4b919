#include "base/system_words.h"

#include <gtest/gtest.h>

namespace ferry {
namespace {

TEST(SystemWords, OfARefusedThreadSayWhereToLook) {
  const auto words = [](std::errc code) {
    return words_of_system(std::system_error(std::make_error_code(code)));
  };
  const std::string refused = words(std::errc::resource_unavailable_try_again);
  EXPECT_NE(refused.find("no more threads can be started"), std::string::npos) << refused;
  EXPECT_NE(refused.find("ulimit -u"), std::string::npos) << refused;
  const std::string other = words(std::errc::no_such_device);
  EXPECT_EQ(other.find("threads"), std::string::npos) << other;
}

}  // namespace
}  // namespace ferry
