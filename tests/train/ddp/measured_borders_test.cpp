// Borders of buckets that training finds from measured times.
#include "train/support/models.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "train/support/ranks.hpp"

namespace kolo::test::ddp {
namespace {

/// Averages as DistributedDataParallel does without a hook, slowly: 10 ms a bucket and 0.1 ms for each
/// element.
class SlowAverage : public GradientHook {
 public:
  std::string describe() const override { return "slow"; }
  void average(const GradientBucket& bucket, Communicator& communicator) override {
    communicator.all_reduce(Buffer(bucket.gradients), ReduceOp::average);
    std::this_thread::sleep_for(std::chrono::microseconds(10'000 + 100 * bucket.gradients.size()));
  }
  void end_step(bool) override {}
};

TEST(MeasuredBorders, PutALateGradientApartInTrainingAndKeepGradients) {
  at::set_num_threads(1);
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallelOptions options;
    options.bucket_borders = BucketBorders::measured;
    options.first_bucket_bytes = 16;  // the last layer's bias: two sizes tell latency from bandwidth
    options.hook = std::make_shared<SlowAverage>();
    DistributedDataParallel model(Chain(0, 8), communicator, options);
    Chain reference(0, 8);
    model->first->weight.register_hook([](const at::Tensor& gradient) {
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
      return gradient;
    });
    const auto loss = [&](Chain& chain, int rank) {
      return squares(chain(numbers(6, 8, rank)), numbers(6, 4, 9));
    };
    for (int rank = 0; rank < 2; ++rank) (loss(reference, rank) / 2).backward();
    ASSERT_EQ(model.buckets().size(), 2u);
    int step = 0;
    for (; step < 40 && !model.bucket_plan().is_final; ++step) {
      squares(model(numbers(6, 8, communicator.rank())), numbers(6, 4, 9)).backward();  // sums up
      EXPECT_TRUE(at::allclose(model->second->weight.grad(), (step + 1) * reference->second->weight.grad(),
                               1e-4, 1e-5))
          << "step " << step;
    }
    EXPECT_LE(step, 19);
    const auto buckets = model.buckets();
    const BucketPlan plan = model.bucket_plan();
    ASSERT_GE(buckets.size(), 3u) << plan.latency.count() << " s, " << plan.per_mebibyte.count()
                                  << " s, expects " << plan.exposed.count() << " s instead of "
                                  << plan.exposed_before.count();
    for (const std::string& name : buckets.back().parameters) EXPECT_EQ(name.substr(0, 6), "first.");
    EXPECT_LT(plan.exposed, plan.exposed_before);
    std::vector<std::uint8_t> names;
    for (const auto& bucket : buckets) {
      for (const std::string& name : bucket.parameters) names.insert(names.end(), name.begin(), name.end());
      names.push_back('|');
    }
    EXPECT_TRUE(same_everywhere(communicator, names));
    EXPECT_TRUE(
        same_everywhere(communicator, bits({model->first->weight.grad(), model->third->bias.grad()})));
  });
}

}  // namespace
}  // namespace kolo::test::ddp
