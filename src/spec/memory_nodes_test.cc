#include "spec/memory_nodes.h"

#include <gtest/gtest.h>

#include "spec/fake_box.h"

namespace ferry {
namespace {

using Nodes = std::vector<int>;

const std::string kOne = "0000:3b:00.0", kOther = "0000:af:00.0";

/// Memory on the nodes of `has_memory`; a GPU next to node 0 and another next to `other_node`.
struct Box {
  explicit Box(const std::string& name, const std::string& has_memory,
               const std::string& other_node = "1")
      : box("ferry_memory_nodes_" + name) {
    box.write("sys/devices/system/node/has_memory", has_memory);
    box.write("sys/bus/pci/devices/" + kOne + "/numa_node", "0");
    box.write("sys/bus/pci/devices/" + kOther + "/numa_node", other_node);
  }

  Nodes near(std::vector<std::string> addresses) const { return nodes_near(box.path(), addresses); }

  FakeBox box;
};

TEST(MemoryNodes, AGpusMemoryLiesOnTheNodeThatItHangsNextTo) {
  const Box box("one", "0-1");
  EXPECT_EQ(box.near({kOne}), Nodes{0});
  EXPECT_EQ(box.near({kOther}), Nodes{1});
  EXPECT_EQ(box.near({kOther, kOther}), Nodes{1});
  EXPECT_EQ(node_of_pci(box.box.path(), kOther), 1);
}

TEST(MemoryNodes, GpusOfSeveralNodesShareThese) {
  const Box box("several", "0-7", "5");
  EXPECT_EQ(box.near({kOther, kOne}), (Nodes{0, 5}));
}

TEST(MemoryNodes, WhereAllMemoryIsOnOneNodeThereIsNoChoice) {
  const Box box("single", "0", "0");
  EXPECT_EQ(box.near({kOne, kOther}), Nodes{});
}

TEST(MemoryNodes, ANodeWithoutMemoryIsNotChosen) {
  const Box box("empty", "0,2");
  EXPECT_EQ(box.near({kOther}), Nodes{});
  EXPECT_EQ(box.near({kOne, kOther}), Nodes{0});
}

TEST(MemoryNodes, AnUnknownNodeIsNotGuessed) {
  const Box box("unknown", "0-1", "-1");
  EXPECT_EQ(node_of_pci(box.box.path(), kOther), std::nullopt);
  EXPECT_EQ(node_of_pci(box.box.path(), ""), std::nullopt);
  EXPECT_EQ(node_of_pci(box.box.path(), "0000:01:00.0"), std::nullopt);  // not there
  EXPECT_EQ(box.near({kOther}), Nodes{});
  EXPECT_EQ(box.near({kOther, kOne}), Nodes{0});
  EXPECT_EQ(nodes_near("/nowhere", std::vector{kOne}), Nodes{});
}

}  // namespace
}  // namespace ferry
