#include "train/driving_thread.h"

#include <sys/resource.h>

#include <exception>
#include <thread>

namespace ferry {

void on_driving_thread(bool give_way, const std::function<void()>& work) {
  std::exception_ptr failure;
  std::thread thread([&] {
    // On Linux a thread has a nice value of its own. Where it cannot be set, nothing but speed is
    // lost.
    if (give_way) setpriority(PRIO_PROCESS, 0, 19);
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
