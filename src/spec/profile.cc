#include "spec/profile.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "base/error.h"
#include "spec/fields.h"

namespace ferry {
namespace {

constexpr double kManyBlocks = 100000;
constexpr double kManyTokens = 1e9;
constexpr double kManyCores = 1e6;
constexpr double kMostParameters = 1e15;

struct Top {
  const Node* blocks = nullptr;
  const Node* chain = nullptr;
};

// One item of `blocks`. Without `chain`, `count` of them stand here.
struct BlockEntry {
  BlockProfile block;
  int count = 1;
};

std::vector<Field> profile_fields(Profile& profile, Top& top) {
  return with_bounded_amounts({
      {.name = "name", .member = &profile.name, .required = true, .meaning = "for people"},
      {.name = "micro_batch_size",
       .member = &profile.micro_batch_size,
       .unit = "sequences",
       .least = 1,
       .most = kManyTokens,
       .meaning = "of the micro-batch that times and boundary bytes are for"},
      {.name = "sequence",
       .member = &profile.sequence,
       .unit = "tokens",
       .least = 1,
       .most = kManyTokens,
       .meaning = "of the micro-batch that times and boundary bytes are for"},
      {.name = "measured",
       .member = &profile.measured,
       .meaning = "true: on the machine that it is used for"},
      {.name = "update_rate",
       .member = Real{&profile.update_rate, Dimension::parameters},
       .meaning = "CPU optimizer on all cores; null: the machine's"},
      {.name = "device_update_rate",
       .member = Real{&profile.device_update_rate, Dimension::parameters},
       .meaning = "a device's own optimizer; null: an estimate"},
      {.name = "compute_cores",
       .member = Real{&profile.compute_cores},
       .most = kManyCores,
       .meaning = "of the host, busy while one simulated device computes; 0: its threads"},
      {.name = "up",
       .member = Real{&profile.up.bytes_per_second, Dimension::rate},
       .meaning = "host to device, one device alone; null: the machine's"},
      {.name = "down",
       .member = Real{&profile.down.bytes_per_second, Dimension::rate},
       .meaning = "device to host, one device alone; null: the machine's"},
      {.name = "task_overhead",
       .member = Real{&profile.task_overhead.count, Dimension::time},
       .meaning = "of starting one task"},
      {.name = "copy_overhead",
       .member = Real{&profile.copy_overhead.count, Dimension::time},
       .meaning = "of starting one copy"},
      {.name = "blocks",
       .member = Nested{&top.blocks},
       .required = true,
       .meaning = "list of at least one kind of block, see below"},
      {.name = "chain",
       .member = Nested{&top.chain},
       .meaning =
           "list of keys, one per block of the model in order; null: `blocks` in order, each "
           "`count` times"},
  });
}

std::vector<Field> block_fields(BlockEntry& entry) {
  BlockProfile& block = entry.block;
  const auto time = [](std::string name, Micros& value, std::string meaning, bool required = true) {
    return Field{.name = std::move(name),
                 .member = Real{&value.count, Dimension::time},
                 .required = required,
                 .meaning = std::move(meaning)};
  };
  const auto size = [](std::string name, Bytes& value, std::string meaning) {
    return Field{.name = std::move(name), .member = &value, .meaning = std::move(meaning)};
  };
  return with_bounded_amounts({
      {.name = "key",
       .member = &block.key,
       .required = true,
       .meaning = "equal blocks share it; any text"},
      {.name = "count",
       .member = &entry.count,
       .unit = "blocks",
       .least = 1,
       .most = kManyBlocks,
       .meaning = "so many of them in a row; only without `chain`"},
      time("forward", block.forward, "one micro-batch"),
      time("backward", block.backward, "one micro-batch, recompute included"),
      size("weights", block.weights, "what the device computes with and an upload moves"),
      size("gradients", block.gradients, "the sum over micro-batches"),
      size("forward_workspace", block.forward_workspace,
           "needed in forward beside weights and boundaries, at the peak"),
      size("backward_workspace", block.backward_workspace,
           "needed in backward beside weights, gradients and boundaries, at the peak"),
      size("saved", block.saved,
           "what forward may keep, one micro-batch, so that backward need not recompute; 0: it "
           "cannot"),
      time("saving_forward", block.saving_forward,
           "a forward that keeps it, where that takes longer than `forward`", false),
      time("saved_backward", block.saved_backward, "backward of a forward that kept it", false),
      size("saving_workspace", block.saving_workspace,
           "needed in a forward that keeps it beside weights, boundaries and what is kept"),
      size("saved_backward_workspace", block.saved_backward_workspace,
           "needed in the backward of such a forward, likewise; left out: `backward_workspace`"),
      size("activation", block.activation, "after the block, one micro-batch"),
      size("activation_gradient", block.activation_gradient, "before the block, one micro-batch"),
      {.name = "parameters",
       .member = &block.parameters,
       .most = kMostParameters,
       .meaning = "that the optimizer updates; 0: none"},
  });
}

[[noreturn]] void fail(const std::string& source, int line, const std::string& what) {
  throw UserError(place_of(source, line) + ": " + what);
}

int block_index(const Profile& profile, const Node& node, const std::string& source) {
  if (node.kind == Node::Kind::scalar) {
    for (std::size_t i = 0; i < profile.blocks.size(); ++i) {
      if (profile.blocks[i].key == node.text) return static_cast<int>(i);
    }
  }
  fail(source, node.line,
       "'chain' must be a list of keys of 'blocks'; found " +
           (node.kind == Node::Kind::scalar ? "'" + node.text + "'" : "something else"));
}

void read_blocks(Profile& profile, const Top& top, const std::string& source) {
  for (const Node& node : items(top.blocks)) {
    BlockEntry entry;
    const FieldLines lines = read_fields(node, block_fields(entry), source);
    if (find_block(profile, entry.block.key)) {
      fail(source, lines.at("key"), "a block '" + entry.block.key + "' is given above already");
    }
    if (!lines.contains("saved_backward_workspace")) {
      entry.block.saved_backward_workspace = entry.block.backward_workspace;
    }
    if (top.chain && lines.contains("count")) {
      fail(source, lines.at("count"),
           "'count' and 'chain' exclude each other; expected one of them");
    }
    if (!top.chain) {
      profile.chain.insert(profile.chain.end(), static_cast<std::size_t>(entry.count),
                           static_cast<int>(profile.blocks.size()));
    }
    if (profile.chain.size() > static_cast<std::size_t>(kManyBlocks)) {
      fail(source, node.line, "more than 100000 blocks");
    }
    profile.blocks.push_back(entry.block);
  }
}

}  // namespace

const BlockProfile* find_block(const Profile& profile, std::string_view key) {
  const auto block = std::find_if(profile.blocks.begin(), profile.blocks.end(),
                                  [&](const BlockProfile& each) { return each.key == key; });
  return block == profile.blocks.end() ? nullptr : &*block;
}

Profile of_slowest(Profile one, const Profile& other) {
  FERRY_CHECK(one.chain == other.chain, "profiles of one model have equal chains");
  const auto raise = [](auto& value, const auto& to) { value = std::max(value, to); };
  // 0 says that a rate is not known.
  const auto lower = [](double& rate, double to) {
    if (to > 0) rate = rate > 0 ? std::min(rate, to) : to;
  };
  for (std::size_t i = 0; i < one.blocks.size(); ++i) {
    BlockProfile& block = one.blocks[i];
    const BlockProfile& slower = other.blocks[i];
    FERRY_CHECK(block.key == slower.key, "profiles of one model have equal keys");
    for (const auto time : {&BlockProfile::forward, &BlockProfile::backward,
                            &BlockProfile::saving_forward, &BlockProfile::saved_backward}) {
      raise(block.*time, slower.*time);
    }
    for (const auto workspace : kWorkspaces) raise(block.*workspace, slower.*workspace);
    // What one of them cannot keep, no plan lets forward keep; else kernels may differ in a little.
    block.saved =
        block.saved > 0_B && slower.saved > 0_B ? std::max(block.saved, slower.saved) : 0_B;
  }
  lower(one.update_rate, other.update_rate);
  lower(one.device_update_rate, other.device_update_rate);
  lower(one.up.bytes_per_second, other.up.bytes_per_second);
  lower(one.down.bytes_per_second, other.down.bytes_per_second);
  raise(one.compute_cores, other.compute_cores);
  raise(one.task_overhead, other.task_overhead);
  raise(one.copy_overhead, other.copy_overhead);
  one.name += "; " + other.name;
  return one;
}

Profile parse_profile(const std::string& text, const std::string& source) {
  Profile profile;
  Top top;
  const Node document = parse_document(text, source);
  const FieldLines lines = read_fields(document, profile_fields(profile, top), source);
  read_blocks(profile, top, source);
  for (const Node& node : items(top.chain)) {
    profile.chain.push_back(block_index(profile, node, source));
  }
  if (profile.blocks.empty()) fail(source, lines.at("blocks"), "'blocks' is empty; expected one");
  return profile;
}

std::string to_yaml(const Profile& profile) {
  Profile copy = profile;
  Top top;
  std::string text = write_fields(profile_fields(copy, top), 0, false) + "blocks:\n";
  for (const BlockProfile& block : profile.blocks) {
    BlockEntry entry{.block = block};
    std::vector<Field> fields = block_fields(entry);
    std::erase_if(fields, [](const Field& field) { return field.name == "count"; });
    text += as_list_item(write_fields(fields, 4, false));
  }
  text += "chain:";
  if (profile.chain.empty()) text += " []";
  text += "\n";
  for (const int index : profile.chain) {
    text += "  - " + yaml_text(profile.blocks.at(static_cast<std::size_t>(index)).key) + "\n";
  }
  return text;
}

std::string profile_reference() {
  Profile profile;
  Top top;
  BlockEntry block;
  return reference_table(profile_fields(profile, top)) + "\nEach of `blocks`:\n\n" +
         reference_table(block_fields(block));
}

}  // namespace ferry
