#include "device/kernel_library.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const ResourceError& error) {
    return error.what();
  }
  return "";
}

/// What a driver was asked for; functions of a driver know nothing but this.
struct Calls {
  std::vector<std::string> log;
  int load_error = 0;
  int launch_error = 0;
  long sum = 0;  // of the arguments of the last launch
};
Calls calls;

CudaDriver recording_driver() {
  calls = {};
  return {
      .init = [](unsigned) { return 0; },
      .device_get = [](int* device, int index) { return (*device = index, index > 1 ? 101 : 0); },
      .device_get_attribute = [](int* value, int which,
                                 int) { return (*value = which == 75 ? 12 : 1, 0); },
      .primary_context_retain = [](void**, int) { return (calls.log.push_back("retain"), 0); },
      .primary_context_release = [](int) { return (calls.log.push_back("release"), 0); },
      .context_set_current = [](void*) { return 0; },
      .module_load_data =
          [](void**, const void* image) {
            calls.log.push_back("load " + std::string(static_cast<const char*>(image)));
            return calls.load_error;
          },
      .module_unload = [](void*) { return (calls.log.push_back("unload"), 0); },
      .module_get_function =
          [](void** function, void*, const char* name) {
            calls.log.push_back("find " + std::string(name));
            return (*function = &calls, 0);
          },
      .launch_kernel =
          [](void*, unsigned x, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned,
             void*, void** parameters, void**) {
            calls.log.push_back(std::to_string(x) + " x " + std::to_string(threads));
            calls.sum = *static_cast<int*>(parameters[0]) + *static_cast<long*>(parameters[1]);
            return calls.launch_error;
          },
      .get_error_string =
          [](int error, const char** text) {
            *text = "invalid device ordinal";
            return error == 101 ? 0 : 1;
          }};
}

TEST(KernelLibrary, FindsAKernelOnceAndLaunchesAThreadPerIndex) {
  {
    const KernelLibrary library(recording_driver(), 0, "code");
    library.launch(nullptr, "adamw", 257, 3, 4L);
    EXPECT_EQ(calls.sum, 7);
    library.launch(nullptr, "adamw", std::int64_t{1} << 40, 3, 4L);
    library.launch(nullptr, "adamw", 0, 3, 4L);  // nothing to do
  }
  EXPECT_EQ(calls.log, (std::vector<std::string>{"retain", "load code", "find adamw", "2 x 256",
                                                 "1048576 x 256", "unload", "release"}));
}

TEST(KernelLibrary, SaysWhatTheDriverRefused) {
  const CudaDriver driver = recording_driver();
  EXPECT_EQ(architecture_of(driver, 0), "sm_121");
  EXPECT_EQ(error_of([&] { architecture_of(driver, 2); }),
            "opening CUDA device 2: invalid device ordinal");
  calls.load_error = 200;
  EXPECT_EQ(error_of([&] { KernelLibrary(driver, 0, "code"); }),
            "loading compiled kernels: CUDA error 200");
  EXPECT_EQ(calls.log, (std::vector<std::string>{"retain", "load code", "release"}));
  calls.load_error = 0;
  calls.launch_error = 101;
  const KernelLibrary library(driver, 0, "code");
  EXPECT_EQ(error_of([&] { library.launch(nullptr, "adamw", 1, 3, 4L); }),
            "launching kernel adamw: invalid device ordinal");
}

TEST(Nvrtc, ACompilerThatIsNotThereIsTheMachinesError) {
  const std::vector<std::string> names = {"libno-such-compiler.so", "libnor-this.so"};
  const std::string error = error_of([&] { Nvrtc::load(names); });
  EXPECT_NE(error.find("libno-such-compiler.so"), std::string::npos) << error;
  EXPECT_NE(error.find("libnor-this.so"), std::string::npos) << error;
}

/// With PyPI's compiler, and a folder of its own.
class Compiled : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string(FERRY_NVRTC).empty()) {
      GTEST_SKIP() << "nvidia-cuda-nvrtc is not installed (requirements.txt)";
    }
    folder_ = fs::temp_directory_path() / ("ferry-kernels-" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static Nvrtc compiler() {
    const std::vector<std::string> names = {FERRY_NVRTC};
    return Nvrtc::load(names);
  }
  KernelFile file() const {
    return [this](const std::string&) { return folder_ / "kept" / "code.cubin"; };
  }

  const KernelSource source_{"extern \"C\" __global__ void f(float* x) { *x = 1; }\n", {}};
  const KernelSource other_{"extern \"C\" __global__ void f(float* x) { *x = 2; }\n", {}};
  fs::path folder_;
};

TEST_F(Compiled, CodeIsKeptAndFoundAgain) {
  const KernelCode made = kernel_code(source_, "sm_90", compiler(), file());
  EXPECT_TRUE(made.file.empty());
  const KernelCode kept = kernel_code(source_, "sm_90", compiler(), file());
  EXPECT_EQ(kept.file, folder_ / "kept" / "code.cubin");
  EXPECT_EQ(kept.cubin, made.cubin);
}

TEST_F(Compiled, CodeOfAnotherSourceArchitectureOrFileIsNotTaken) {
  kernel_code(source_, "sm_90", compiler(), file());
  EXPECT_TRUE(kernel_code(other_, "sm_90", compiler(), file()).file.empty());
  EXPECT_TRUE(kernel_code(other_, "sm_80", compiler(), file()).file.empty());
  fs::resize_file(folder_ / "kept" / "code.cubin", 1000);
  EXPECT_TRUE(kernel_code(other_, "sm_80", compiler(), file()).file.empty());
}

TEST_F(Compiled, AFileThatCannotBeWrittenIsDoneWithout) {
  std::ofstream(folder_ / "kept") << "no folder";
  EXPECT_FALSE(kernel_code(source_, "sm_90", compiler(), file()).cubin.empty());
}

TEST_F(Compiled, ASourceThatDoesNotCompileIsNamedWithTheFirstComplaint) {
  const KernelSource wrong{"extern \"C\" __global__ void f() { nonsense; }\n", {}};
  const std::string error = error_of([&] { kernel_code(wrong, "sm_90", compiler(), {}); });
  EXPECT_NE(error.find("compiles no kernels for sm_90"), std::string::npos) << error;
  EXPECT_NE(error.find("nonsense"), std::string::npos) << error;
}

}  // namespace
}  // namespace ferry
