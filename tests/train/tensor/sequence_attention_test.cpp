// Attention over a sequence that is divided among ranks equals attention over the whole.
#include "kolo/train/group_functions.hpp"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <limits>

#include "kolo/error.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/slice.hpp"
#include "train/support/ranks.hpp"
#include "train/tensor/training.hpp"

namespace kolo::test::tensor {
namespace {

using Attention = at::Tensor (*)(const at::Tensor&, const at::Tensor&, const at::Tensor&, const Communicator&,
                                 const SequenceAttentionOptions&);

constexpr Attention kWays[] = {all_to_all_attention, ring_attention};

at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal) {
  at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(-1)));
  if (causal) {
    const at::Tensor later = at::ones({q.size(2), q.size(2)}, at::kBool).triu(1);
    scores = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
  }
  return at::matmul(at::softmax(scores, -1), v);
}

at::Tensor leaf_of(const at::Tensor& x) {
  return x.detach().clone().set_requires_grad(true);
}

struct Heads {
  Heads(std::int64_t heads, std::int64_t time, at::ScalarType type) {
    for (int i = 0; i < 3; ++i) tensors.push_back(leaf_of(waves({2, heads, time, 3}, i).mul(3).to(type)));
  }
  Heads part(const Communicator& group) const {
    Heads parts = *this;
    const Slice own = slice_of(tensors[0].size(2), group.rank(), group.size());
    for (at::Tensor& tensor : parts.tensors) tensor = leaf_of(tensor.narrow(2, own.begin, own.length));
    return parts;
  }
  Heads in_double() const {
    Heads same = *this;
    for (at::Tensor& tensor : same.tensors) tensor = leaf_of(tensor.to(at::kDouble));
    return same;
  }
  std::vector<at::Tensor> tensors;
};

// The whole is computed in float64: in 16 bits it would be as far from the truth as what it is to judge, and
// by the processor's instructions.
void expect_as_whole(Communicator& group, Attention way, bool causal, std::int64_t time, at::ScalarType type,
                     double tolerance) {
  const Heads given(5, time, type), own = given.part(group), whole = given.in_double();
  const at::Tensor expected = plain_attention(whole.tensors[0], whole.tensors[1], whole.tensors[2], causal);
  const at::Tensor weights = waves(expected.sizes().vec(), 9).to(type);
  (expected * weights.to(at::kDouble)).sum().backward();
  const Slice slice = slice_of(time, group.rank(), group.size());
  const auto mine = [&](const at::Tensor& x) { return x.narrow(2, slice.begin, slice.length); };
  const at::Tensor y =
      way(own.tensors[0], own.tensors[1], own.tensors[2], group, {.causal = causal, .whole_sequence = time});
  EXPECT_LT(relative_distance(y.detach().to(at::kDouble), mine(expected.detach())), tolerance);
  (y * mine(weights)).sum().backward();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_LT(relative_distance(own.tensors[i].grad().to(at::kDouble), mine(whole.tensors[i].grad())),
              tolerance)
        << i;
  }
}

TEST(SequenceAttention, OutputsAndGradientsAreThoseOfTheWhole) {
  run_all(4, [](Communicator& all) {
    for (const int ranks : {1, 2, 3, 4}) {
      Communicator group = all.split(all.rank() < ranks ? 0 : -1);
      if (!group.valid()) continue;
      for (const Attention way : kWays) {
        for (const bool causal : {false, true}) {
          SCOPED_TRACE(causal);
          expect_as_whole(group, way, causal, 12, at::kDouble, 1e-12);
          expect_as_whole(group, way, causal, 7, at::kDouble, 1e-12);
          expect_as_whole(group, way, causal, 12, at::kFloat, 1e-5);
          expect_as_whole(group, way, causal, 12, at::kBFloat16, 4e-2);
        }
        expect_as_whole(group, way, true, 3, at::kDouble, 1e-12);  // leaves ranks without places
      }
    }
  });
}

/// One layer of attention: replicated weights, sequences divided.
struct AttendImpl : torch::nn::Module {
  AttendImpl(Attention way_, const Communicator& group_) : way(way_), group(group_), in(4, 36), out(12, 4) {
    register_module("in", in);
    register_module("out", out);
    fill(*this, 1);
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto heads = in(x).view({x.size(0), x.size(1), 3, 4, 3}).permute({2, 0, 3, 1, 4});
    const at::Tensor seen = way(heads[0], heads[1], heads[2], group, {.causal = true});
    return out(seen.transpose(1, 2).reshape({x.size(0), x.size(1), 12}));
  }
  Attention way;
  Communicator group;
  torch::nn::Linear in, out;
};
TORCH_MODULE(Attend);

TEST(SequenceAttention, TrainsUnderDistributedDataParallelAsOneProcess) {
  for (const Attention way : kWays) {
    std::vector<at::Tensor> trained[2];
    for (const int ranks : {1, 4}) {
      run_all(ranks, [&](Communicator& group) {
        DistributedDataParallel model(Attend(way, group), group, small_buckets());
        torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
        const std::int64_t own = 8 / ranks;
        const auto mine = [&](const at::Tensor& all) { return all.narrow(1, own * group.rank(), own); };
        for (int step = 0; step < 20; ++step) {
          optimizer.zero_grad();
          squares(model(mine(waves({2, 8, 4}, step))), mine(waves({2, 8, 4}, 50))).backward();
          optimizer.step();
        }
        if (group.rank() == 0) trained[ranks == 1 ? 0 : 1] = model.parameters();
      });
    }
    for (std::size_t i = 0; i < trained[0].size(); ++i)
      EXPECT_LT(relative_distance(trained[1][i].detach(), trained[0][i].detach()), 1e-10) << i;
  }
}

TEST(SequenceAttention, RefusesShapesThatDoNotFit) {
  run_all(2, [](Communicator& group) {
    const at::Tensor x = at::ones({1, 2, 4, 3}), other = at::ones({1, 2, 5, 3});
    for (const Attention way : kWays) {
      EXPECT_THROW(way(x, other, x, group, {}), InvalidArgumentError);
      EXPECT_THROW(way(x[0], x[0], x[0], group, {}), InvalidArgumentError);
      EXPECT_THROW(way(x, x, x, group, {.whole_sequence = 20}), InvalidArgumentError);
    }
    const at::Tensor single = at::ones({1, 1, 4, 3});
    EXPECT_THROW(all_to_all_attention(single, single, single, group), InvalidArgumentError)
        << "1 head, 2 ranks";
    const at::Tensor q = at::ones({1, 2, 4, 3}).set_requires_grad(true);
    const at::Tensor loss = ring_attention(q, x, x, group).sum();
    EXPECT_THROW(loss.backward({}, {}, true), InvalidArgumentError);
  });
}

}  // namespace
}  // namespace kolo::test::tensor
