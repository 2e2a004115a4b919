#include "train/driving_thread.h"

#include <unistd.h>

#include <exception>
#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>

#include "base/error.h"
#include "base/kernel_team.h"

namespace ferry {
namespace {

constexpr int kGivingWay = 10;  // a tenth of a core beside a busy thread, by Linux's weights

std::thread started(const std::function<void()>& work) {
  try {
    return std::thread(work);
  } catch (const std::system_error& error) {
    throw ResourceError(std::string("cannot start a thread to drive steps: ") + error.what() +
                        kProcessLimits);
  }
}

}  // namespace

// On Linux a thread has a nice value of its own. Where it cannot be set, nothing but speed is lost.
void give_way() { std::ignore = nice(kGivingWay); }

void on_driving_thread(bool gives_way, const std::function<void()>& work) {
  release_kernel_team();  // the calling thread waits
  std::exception_ptr failure;
  std::thread thread = started([&] {
    if (gives_way) give_way();
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace ferry
