// Output shapes of CPU operators that have no Meta kernel in C++. Internal to simdev/.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

namespace ferry {

/// The outputs of operator `name` ("aten::where.self") as meta tensors (undefined where the
/// operator returns none), or nothing when this table does not know the operator. Of out= forms
/// only the sizes count. `inputs` may be on any device.
std::optional<std::vector<at::Tensor>> output_shapes(const std::string& name,
                                                     const std::vector<c10::IValue>& inputs);

}  // namespace ferry
