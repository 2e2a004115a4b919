#include "plan/at_home.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plan/purposes.h"
#include "plan/sample_plans.h"

namespace ferry {
namespace {

std::vector<std::string> names_at_home(const Plan& plan) {
  std::vector<std::string> names;
  const IdVector<InstanceId, bool> rests = at_home(plan);
  for (const InstanceId id : plan.instances.ids()) {
    if (rests[id]) names.push_back(instance_name(plan, id));
  }
  return names;
}

// Three weights come up to gpu0: W.0 once into a slot of its own, W.1 twice, W.2 into bytes that
// G.1 takes over. G.0 has a slot of its own, and so has what it is rounded to.
constexpr const char* kPlan = R"(ferry-plan 1
strategy test
step train micro_batches=1 micro_batch_size=1 sequence=1 precision=fp32 gradients=bf16
block 0 kind=mlp stage=0
block 1 kind=mlp stage=0
block 2 kind=mlp stage=0
place host kind=host budget=1000 workspace=0
place gpu0 kind=device budget=1000 workspace=0
resource up kind=copy place=gpu0 rate=1e7
resource compute kind=compute place=gpu0
value W.0 bytes=100
value W.1 bytes=70
value W.2 bytes=60
value S.0 bytes=200
value G.0 bytes=100
value G.1 bytes=70
value R.0 bytes=50
value A.1.0 bytes=30
instance W.0@host offset=0 home
instance W.1@host offset=100 home
instance W.2@host offset=170 home
instance S.0@host offset=230 home
instance W.0@gpu0 offset=0
instance W.1@gpu0 offset=100
instance W.2@gpu0 offset=200
instance A.1.0@gpu0 offset=300
instance G.0@gpu0 offset=400
instance G.1@gpu0 offset=259
instance R.0@gpu0 offset=600
task W.0>gpu0 kind=copy on=up bytes=100 reads=W.0@host writes=W.0@gpu0
task W.1>gpu0 kind=copy on=up bytes=70 reads=W.1@host writes=W.1@gpu0
task W.2>gpu0 kind=copy on=up bytes=60 reads=W.2@host writes=W.2@gpu0
task F.0 kind=forward on=compute micros=5 block=0 reads=W.0@gpu0 writes=A.1.0@gpu0
task W.1>gpu0#2 kind=copy on=up bytes=70 reads=W.1@host writes=W.1@gpu0
task B.0 kind=backward on=compute micros=5 block=0 reads=W.0@gpu0 writes=G.0@gpu0,R.0@gpu0
task B.1 kind=backward on=compute micros=5 block=1 reads=W.1@gpu0 writes=G.1@gpu0
)";

TEST(AtHome, SumsAndWeightsThatArriveOnceRestInSlotsOfTheirOwn) {
  const Plan plan = parse_plan(kPlan, "test");
  EXPECT_EQ(names_at_home(plan),
            (std::vector<std::string>{"W.0@host", "W.1@host", "W.2@host", "S.0@host", "W.0@gpu0",
                                      "G.0@gpu0", "R.0@gpu0"}));
  EXPECT_EQ(bytes_at_home(plan)[0], 430_B);
  EXPECT_EQ(bytes_at_home(plan)[1], 250_B);
}

// A slot may lie within a longer one that began before its neighbour.
TEST(AtHome, ASharedByteIsFoundWhateverLiesBetween) {
  std::string text = kPlan;
  const std::string slot = "A.1.0@gpu0 offset=300";
  text.replace(text.find(slot), slot.size(), "A.1.0@gpu0 offset=499");
  const Plan plan = parse_plan(text, "test");
  EXPECT_EQ(bytes_at_home(plan)[1], 150_B);  // A.1.0 takes the last byte of G.0's slot
}

TEST(AtHome, AResidentPlanRestsOnItsDevice) {
  const Plan plan = sample_resident({});
  Bytes states;
  for (const Value& value : plan.values) {
    const bool rests = value.kind == ValueKind::weight || value.kind == ValueKind::state ||
                       value.kind == ValueKind::gradient;
    if (rests) states += value.bytes;
  }
  const IdVector<PlaceId, Bytes> home = bytes_at_home(plan);
  for (const PlaceId p : plan.places.ids()) {
    EXPECT_EQ(home[p], plan.places[p].kind == PlaceKind::device ? states : 0_B);
  }
}

TEST(AtHome, IsAPartOfWhatThePurposesCount) {
  for (int devices = 1; devices <= 3; ++devices) {
    SampleShape shape;
    shape.layers = 4;
    shape.devices = devices;
    for (const Plan& plan : {sample_mobius(shape), sample_resident(shape)}) {
      const IdVector<PlaceId, Bytes> home = bytes_at_home(plan);
      for (const PlaceId p : plan.places.ids()) {
        auto of = bytes_by_purpose(plan, p);
        const Bytes most = of[Purpose::weights] + of[Purpose::optimizer] + of[Purpose::gradients];
        EXPECT_LE(home[p], most) << plan.places[p].name;
      }
    }
  }
}

TEST(AtHome, NothingRestsInAPlanThatOnlyTellsTime) {
  const Plan plan = parse_plan(
      "ferry-plan 1\nstrategy test\n"
      "step train micro_batches=1 micro_batch_size=1 sequence=1 precision=fp32 timing_only\n"
      "place host kind=host budget=0 workspace=0\n"
      "resource load kind=host place=host\n"
      "task X.0 kind=load on=load micros=2\n",
      "test");
  EXPECT_EQ(bytes_at_home(plan)[0], 0_B);
}

}  // namespace
}  // namespace ferry
