// NVIDIA's run-time compiler, the one that a CUDA build of torch brings: CUDA C++ to machine code
// of a GPU that need not be here. No toolkit and no headers take part.
#pragma once

#include <span>
#include <string>

#include "device/shared_library.h"

namespace ferry {

/// What compiling gives: machine code for one architecture, and the assembly that it came from.
struct CompiledKernels {
  std::string cubin;
  std::string ptx;
};

/// Copyable; all calls are safe from any thread.
class Nvrtc {
 public:
  /// The compiler of the installed torch. Throws ResourceError when there is none.
  static Nvrtc of_torch();

  /// The first of `names` that can be loaded. Throws ResourceError when none can.
  static Nvrtc load(std::span<const std::string> names);

  /// "13.5". Another version may make other machine code.
  std::string version() const;

  /// Compiles `source`, whose kernels are extern "C". `architecture`: "sm_90". Throws ResourceError
  /// with the first line of the compiler's log when it refuses.
  CompiledKernels compile(const std::string& source, const std::string& architecture,
                          std::span<const std::string> options) const;

 private:
  using Program = void*;
  /// nvrtc.h of the CUDA toolkit documents these; they are the same from CUDA 11 to 13.
  struct Functions {
    int (*version)(int*, int*);
    const char* (*error_string)(int);
    int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
    int (*destroy)(Program*);
    int (*compile)(Program, int, const char* const*);
    int (*log_size)(Program, std::size_t*);
    int (*log)(Program, char*);
    int (*cubin_size)(Program, std::size_t*);
    int (*cubin)(Program, char*);
    int (*ptx_size)(Program, std::size_t*);
    int (*ptx)(Program, char*);
  };

  explicit Nvrtc(const SharedLibrary& library);
  void require(int status, const char* what) const;
  std::string text(Program program, int (*size)(Program, std::size_t*),
                   int (*read)(Program, char*)) const;

  Functions functions_{};
};

}  // namespace ferry
