// Runs ferry's blocks over a model that Python wrote as raw tensors, for tests/parity/*.py.
//
//   parity_program families            prints the families that ferry has
//   parity_program parameters DIR      prints what config.json was read as
//   parity_program run DIR...          writes logits.raw, loss.raw and NAME.grad.raw, all fp32
//   parity_program time DIR REPEATS    prints "KIND FORWARD BACKWARD", each the least seconds of
//                                      layer 0's blocks and of the head's passes
//
// DIR holds config.json, NAME.raw per parameter, ids.raw, labels.raw (int64), and batch.txt:
// "BATCH TIME PRECISION SCALE CHUNK_ROWS THREADS".
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/block.h"
#include "model/embedding.h"
#include "model/head.h"
#include "spec/model_spec.h"
#include "spec/row_chunks.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

at::Tensor read_tensor(const fs::path& file, at::IntArrayRef shape, at::ScalarType type) {
  at::Tensor tensor = at::empty(shape, type);
  std::ifstream stream(file, std::ios::binary);
  stream.read(static_cast<char*>(tensor.mutable_data_ptr()),
              static_cast<std::streamsize>(tensor.nbytes()));
  if (!stream || stream.peek() != std::ifstream::traits_type::eof()) {
    throw UserError(file.string() + ": expected " + std::to_string(tensor.nbytes()) + " bytes");
  }
  return tensor;
}

void write_tensor(const fs::path& file, const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(at::kFloat).contiguous();
  std::ofstream stream(file, std::ios::binary);
  stream.write(static_cast<const char*>(values.const_data_ptr()),
               static_cast<std::streamsize>(values.nbytes()));
  if (!stream) throw ResourceError(file.string() + ": cannot be written");
}

struct Batch {
  BatchShape shape;
  at::ScalarType type = at::kFloat;
  double scale = 1;
  std::int64_t chunk_rows = 1;
  int threads = 1;
};

Batch read_batch(const fs::path& file) {
  Batch batch;
  std::string precision;
  std::ifstream stream(file);
  stream >> batch.shape.batch >> batch.shape.time >> precision >> batch.scale >> batch.chunk_rows >>
      batch.threads;
  if (!stream) throw UserError(file.string() + ": expected six values");
  batch.type = precision == "bf16" ? at::kBFloat16 : at::kFloat;
  return batch;
}

/// A model's weights and the sums of their gradients, block by block.
struct Network {
  ModelSpec spec;
  std::vector<std::vector<at::Tensor>> weights;
  std::vector<std::vector<at::Tensor>> sums;

  at::Tensor head_weight() const { return weights[head_weight_owner(spec)][0]; }
  at::Tensor head_sum() const { return sums[head_weight_owner(spec)][0]; }
};

Network read_network(const fs::path& directory, at::ScalarType type) {
  Network network{.spec = read_model_spec(directory), .weights = {}, .sums = {}};
  for (const BlockSpec& block : network.spec.blocks) {
    network.weights.emplace_back();
    network.sums.emplace_back();
    for (const ParamSpec& param : block.params) {
      network.weights.back().push_back(
          read_tensor(directory / (param.name + ".raw"), param.shape, type));
      network.sums.back().push_back(at::zeros(param.shape, at::kFloat));
    }
  }
  return network;
}

void run(const fs::path& directory) {
  const Batch batch = read_batch(directory / "batch.txt");
  at::set_num_threads(batch.threads);
  Network network = read_network(directory, batch.type);
  const std::vector<BlockSpec>& blocks = network.spec.blocks;
  const std::vector<std::int64_t> grid{batch.shape.batch, batch.shape.time};
  const std::size_t head = blocks.size() - 1;

  std::vector<at::Tensor> inputs{read_tensor(directory / "ids.raw", grid, at::kLong)};
  for (std::size_t i = 0; i < head; ++i) {
    inputs.push_back(forward(network.spec, blocks[i], inputs[i], network.weights[i]));
  }
  const std::vector<at::Tensor> head_weights{network.head_weight()};
  write_tensor(directory / "logits.raw",
               forward(network.spec, blocks[head], inputs[head], head_weights));

  const HeadInput input{.x = inputs[head],
                        .weight = network.head_weight(),
                        .labels = read_tensor(directory / "labels.raw", grid, at::kLong),
                        .scale = batch.scale,
                        .chunk_rows = batch.chunk_rows};
  const HeadResult result = head_forward_backward(input, network.head_sum(), false);
  write_tensor(directory / "loss.raw", result.loss);

  at::Tensor dy = result.dx;
  for (std::size_t i = head - 1; i > 0; --i) {
    BlockGradients gradients = backward(network.spec, blocks[i], inputs[i], network.weights[i], dy);
    for (std::size_t j = 0; j < gradients.weights.size(); ++j) {
      network.sums[i][j].add_(gradients.weights[j]);
    }
    dy = gradients.x;
  }
  add_embedding_gradient(network.spec, inputs[0], dy, network.sums[0]);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (std::size_t j = 0; j < blocks[i].params.size(); ++j) {
      write_tensor(directory / (blocks[i].params[j].name + ".grad.raw"), network.sums[i][j]);
    }
  }
}

/// The least seconds over `repeats` runs of `work`.
template <typename Work>
double least_seconds(int repeats, Work work) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    least = std::min(least, taken.count());
  }
  return least;
}

void time_blocks(const fs::path& directory, int repeats) {
  const Batch batch = read_batch(directory / "batch.txt");
  at::set_num_threads(batch.threads);
  const Network network = read_network(directory, batch.type);
  const ModelSpec& spec = network.spec;
  const at::Tensor x = at::randn({batch.shape.batch, batch.shape.time, spec.hidden}, batch.type);
  const at::Tensor dy = at::randn_like(x);
  for (const std::size_t i : {1, 2}) {
    const BlockSpec& block = spec.blocks[i];
    const double fwd = least_seconds(repeats, [&] { forward(spec, block, x, network.weights[i]); });
    const double bwd =
        least_seconds(repeats, [&] { backward(spec, block, x, network.weights[i], dy); });
    std::cout << to_string(block.kind) << " " << fwd << " " << bwd << "\n";
  }
  const HeadInput input{.x = x,
                        .weight = network.head_weight(),
                        .labels = at::randint(spec.vocab, {batch.shape.batch, batch.shape.time}),
                        .scale = batch.scale,
                        .chunk_rows = head_chunk_rows(spec, batch.shape)};
  std::cout << "head " << least_seconds(repeats, [&] { head_loss(input); }) << " "
            << least_seconds(repeats,
                             [&] { head_forward_backward(input, network.head_sum(), true); })
            << "\n";
}

void print_parameters(const fs::path& directory) {
  const ModelSpec spec = read_model_spec(directory);
  std::printf("theta %g scaling %d factor %g epsilon %g longest %lld\n", spec.rope.theta,
              static_cast<int>(spec.rope.scaling), spec.rope.factor, spec.norm_epsilon,
              static_cast<long long>(longest_sequence(spec)));
  for (const BlockSpec& block : spec.blocks) {
    for (const ParamSpec& param : block.params) {
      std::printf("%s", param.name.c_str());
      for (const std::int64_t size : param.shape) {
        std::printf(" %lld", static_cast<long long>(size));
      }
      std::printf("\n");
    }
  }
}

int run_command(const std::vector<std::string>& arguments) {
  if (arguments == std::vector<std::string>{"families"}) {
    for (const std::string& name : family_names()) std::cout << name << "\n";
  } else if (arguments.size() == 2 && arguments[0] == "parameters") {
    print_parameters(arguments[1]);
  } else if (arguments.size() > 1 && arguments[0] == "run") {
    for (std::size_t i = 1; i < arguments.size(); ++i) run(arguments[i]);
  } else if (arguments.size() == 3 && arguments[0] == "time") {
    time_blocks(arguments[1], std::stoi(arguments[2]));
  } else {
    std::cerr
        << "usage: parity_program families, parameters DIR, run DIR..., or time DIR REPEATS\n";
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace ferry

int main(int argc, char** argv) {
  try {
    return ferry::run_command({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
