#include "train/driving_thread.h"

#include <unistd.h>

#include <exception>
#include <thread>
#include <tuple>

namespace ferry {
namespace {

constexpr int kGivingWay = 10;  // a tenth of a core beside a busy thread, by Linux's weights

}  // namespace

void on_driving_thread(bool give_way, const std::function<void()>& work) {
  std::exception_ptr failure;
  std::thread thread([&] {
    // On Linux a thread has a nice value of its own. Where it cannot be set, nothing but speed is
    // lost.
    if (give_way) std::ignore = nice(kGivingWay);
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
