// The part of the CUDA driver that loads and launches kernels which were compiled here, without its
// headers: torch has no call for that.
#pragma once

#include <string>

namespace ferry {

/// Functions of libcuda as its manual has them; all return 0 for success. Tests give their own.
struct CudaDriver {
  int (*init)(unsigned flags);
  int (*device_get)(int* device, int index);
  int (*device_get_attribute)(int* value, int attribute, int device);
  int (*primary_context_retain)(void** context, int device);
  int (*primary_context_release)(int device);
  int (*context_set_current)(void* context);
  int (*module_load_data)(void** module, const void* image);
  int (*module_unload)(void* module);
  int (*module_get_function)(void** function, void* module, const char* name);
  int (*launch_kernel)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       void* stream, void** parameters, void** extra);
  int (*get_error_string)(int error, const char** text);

  /// The installed driver's. Throws ResourceError when there is none.
  static CudaDriver load();

  /// Throws ResourceError, "WHAT: TEXT", unless `error` is 0.
  void require(int error, const std::string& what) const;
};

}  // namespace ferry
