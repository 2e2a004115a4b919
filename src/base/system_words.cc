#include "base/system_words.h"

#include "base/error.h"

namespace ferry {

std::string words_of_system(const std::system_error& error) {
  std::string text = error.what();
  if (error.code() == std::errc::resource_unavailable_try_again) {
    text += std::string(": no more threads can be started") + kProcessLimits;
  }
  return text;
}

}  // namespace ferry
