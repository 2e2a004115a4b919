#include "device/cuda_driver.h"

#include <array>

#include "base/error.h"
#include "device/shared_library.h"

namespace ferry {

CudaDriver CudaDriver::load() {
  const std::array<std::string, 1> names = {"libcuda.so.1"};
  const SharedLibrary library = SharedLibrary::load(names);
  CudaDriver driver{};
  library.find("cuInit", driver.init);
  library.find("cuDeviceGet", driver.device_get);
  library.find("cuDeviceGetAttribute", driver.device_get_attribute);
  library.find("cuDevicePrimaryCtxRetain", driver.primary_context_retain);
  library.find("cuDevicePrimaryCtxRelease_v2", driver.primary_context_release);
  library.find("cuCtxSetCurrent", driver.context_set_current);
  library.find("cuModuleLoadData", driver.module_load_data);
  library.find("cuModuleUnload", driver.module_unload);
  library.find("cuModuleGetFunction", driver.module_get_function);
  library.find("cuLaunchKernel", driver.launch_kernel);
  library.find("cuGetErrorString", driver.get_error_string);
  return driver;
}

void CudaDriver::require(int error, const std::string& what) const {
  if (error == 0) return;
  const char* text = nullptr;
  const bool known = get_error_string(error, &text) == 0 && text != nullptr;
  throw ResourceError(what + ": " + (known ? text : "CUDA error " + std::to_string(error)));
}

}  // namespace ferry
