// Sparse gradients under DistributedDataParallel: the averages of dense ones, of fewer bytes.
#include "train/support/models.hpp"

#include <gtest/gtest.h>
#include <torch/nn/functional/embedding.h>
#include <torch/nn/modules/embedding.h>

#include <functional>
#include <string>

#include "kolo/error.hpp"
#include "kolo/train/hooks.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::ddp {
namespace {

constexpr std::int64_t kWords = 40, kWidth = 3;

/// Two tables and a layer; the table that is registered last gets its gradient last.
struct WordsImpl : torch::nn::Module {
  explicit WordsImpl(bool sparse, double seed = 1)
      : out(torch::nn::EmbeddingOptions(kWords, kWidth).sparse(sparse)),
        layer(kWidth, kWidth),
        in(torch::nn::EmbeddingOptions(kWords, kWidth).sparse(sparse)) {
    register_module("out", out);
    register_module("layer", layer);
    register_module("in", in);
    fill(*this, seed);
  }
  at::Tensor forward(const at::Tensor& words, const at::Tensor& targets) {
    return (layer(in(words)) * out(targets)).sum(1);
  }

  torch::nn::Embedding out;
  torch::nn::Linear layer;
  torch::nn::Embedding in;
};
TORCH_MODULE(Words);

/// Word numbers, some more than once, with few in common between ranks.
at::Tensor words_of(int rank, int step, std::int64_t count = 12) {
  return at::arange(count, at::kLong).mul(5 + step).add(3 * rank).remainder(kWords / 2).add(rank);
}

class Sparse : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

struct Case {
  std::string name;
  std::function<void(DistributedDataParallelOptions&)> set = [](auto&) {};
  at::ScalarType type = at::kFloat;
  int passes = 1;                 ///< the first ones under no_sync()
  bool has_rank_without = false;  ///< rank 1 uses no word in some steps
  double tolerance = 1e-6;
};

void expect_as_dense(const Case& one) {
  std::vector<at::Tensor> trained[2];
  for (const bool sparse : {false, true}) {
    run_all(3, [&](Communicator& communicator) {
      auto options = small_buckets();
      one.set(options);
      Words words(sparse, 1 + communicator.rank());
      words->to(one.type);
      DistributedDataParallel model(words, communicator, options);
      torch::optim::SGD optimizer(model.parameters(), 0.5);
      for (int step = 0; step < 5; ++step) {
        optimizer.zero_grad();
        for (int pass = 1; pass <= one.passes; ++pass) {
          const bool is_empty = one.has_rank_without && communicator.rank() == 1 && step % 2 == 1;
          const at::Tensor ids = words_of(communicator.rank(), 7 * step + pass, is_empty ? 0 : 12);
          const auto backward = [&] { model(ids, ids.add(1)).square().sum().mul(0.02).backward(); };
          if (pass == one.passes) {
            backward();
          } else {
            const auto guard = model.no_sync();
            backward();
          }
        }
        EXPECT_EQ(model->in->weight.grad().is_sparse(), sparse) << one.name;
        EXPECT_EQ(model.last_step().sparse_sums, sparse ? 2u : 0u);
        if (sparse) {
          EXPECT_TRUE(model->in->weight.grad().is_coalesced());
        }
        optimizer.step();
      }
      EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters()))) << one.name;
      if (communicator.rank() == 0) trained[sparse ? 1 : 0] = model.parameters();
    });
  }
  for (std::size_t i = 0; i < trained[0].size(); ++i) {
    EXPECT_TRUE(at::allclose(trained[0][i], trained[1][i], one.tolerance, one.tolerance))
        << one.name << ", parameter " << i;
  }
}

TEST_F(Sparse, AveragesAreThoseOfDenseGradients) {
  expect_as_dense({.name = "plain"});
  expect_as_dense({.name = "gathered", .set = [](auto& o) { o.sparse_method = SparseMethod::all_gather; }});
  expect_as_dense({.name = "float64", .type = at::kDouble, .tolerance = 1e-14});
  expect_as_dense({.name = "accumulated", .passes = 3});
  expect_as_dense({.name = "a rank without words", .has_rank_without = true});
  expect_as_dense({.name = "a rank without words, gathered",
                   .set = [](auto& o) { o.sparse_method = SparseMethod::all_gather; },
                   .has_rank_without = true});
  expect_as_dense({.name = "finding unused", .set = [](auto& o) { o.find_unused_parameters = true; }});
  expect_as_dense({.name = "without rebuilding", .set = [](auto& o) { o.rebuild_buckets = false; }});
  expect_as_dense({.name = "checked", .set = [](auto& o) { o.check_parameters_every = 1; }});
}

TEST_F(Sparse, TablesTravelBesideAHookAndAWireAsTheyAre) {
  for (const bool hooked : {false, true}) {
    run_all(2, [&](Communicator& communicator) {
      auto options = small_buckets();
      if (hooked) {
        options.hook = make_gradient_hook("top_k:ratio=0.5:momentum=0:warm_up_steps=0");
      } else {
        options.wire = Wire::bfloat16;
      }
      DistributedDataParallel model(Words(true), communicator, options);
      const at::Tensor ids = words_of(communicator.rank(), 1);
      model(ids, ids.add(1)).sum().backward();
      EXPECT_TRUE(same_everywhere(communicator, bits({model->in->weight.grad().to_dense()})));
      EXPECT_EQ(model.buckets().size(), 1u) << "tables are in buckets, which hooks see";
      EXPECT_TRUE(model.averages_are_finite());
    });
  }
}

TEST_F(Sparse, AnInfiniteRowIsSeenWithAHook) {
  run_all(2, [](Communicator& communicator) {
    auto options = small_buckets();
    options.hook = make_gradient_hook("int8");
    DistributedDataParallel model(Words(true), communicator, options);
    const at::Tensor ids = words_of(communicator.rank(), 1);
    at::Tensor out = model->in(ids).sum() * 0;
    out = out + model(ids, ids.add(1)).sum();
    if (communicator.rank() == 1)
      out = out + model->in(ids[0]).sum() * std::numeric_limits<float>::infinity();
    out.backward();
    EXPECT_FALSE(model.averages_are_finite());
  });
}

TEST_F(Sparse, OnlyRowsTravel) {
  constexpr std::int64_t kMany = 100'000;
  run_all(4, [](Communicator& communicator) {
    const torch::nn::Embedding table(torch::nn::EmbeddingOptions(kMany, 16).sparse(true));
    DistributedDataParallel model(table, communicator);
    const at::Tensor ids = at::arange(100, at::kLong).mul(977).add(communicator.rank());
    const std::uint64_t before = model.communicator().counters().bytes_sent;
    model(ids).sum().backward();
    // 100 rows of 64 bytes and an index to three ranks, and the sums back.
    EXPECT_LT(model.communicator().counters().bytes_sent - before, 60'000u);
    EXPECT_EQ(model.last_step().bytes, 100u * (16 * 4 + 8));
    EXPECT_EQ(model->weight.grad()._nnz(), 400);
  });
}

struct BagImpl : torch::nn::Module {
  explicit BagImpl(bool sparse)
      : bag(torch::nn::EmbeddingBagOptions(kWords, kWidth).sparse(sparse).mode(torch::kSum)) {
    register_module("bag", bag);
    fill(*this, 1);
  }
  at::Tensor forward(const at::Tensor& x) { return bag(x, at::arange(0, x.numel(), 4, at::kLong)); }
  torch::nn::EmbeddingBag bag;
};
TORCH_MODULE(Bag);

TEST_F(Sparse, BagsOfWords) {
  at::Tensor gradients[2];
  for (const bool sparse : {false, true}) {
    run_all(3, [&](Communicator& communicator) {
      DistributedDataParallel model(Bag(sparse), communicator);
      model(words_of(communicator.rank(), 2)).square().sum().backward();
      EXPECT_EQ(model->bag->weight.grad().is_sparse(), sparse);
      if (communicator.rank() == 0) gradients[sparse ? 1 : 0] = model->bag->weight.grad();
    });
  }
  EXPECT_TRUE(at::allclose(gradients[0], gradients[1].to_dense()));
}

/// One table, used by an embedding twice, by an embedding and a layer, by a function, or whole.
struct SharedTableImpl : torch::nn::Module {
  enum class Use { twice, layer, function, whole };
  explicit SharedTableImpl(Use use_) : use(use_) {
    if (use == Use::function || use == Use::whole) {
      table = register_parameter("table", numbers(kWords, kWidth, 1).clone());
      return;
    }
    const auto options = torch::nn::EmbeddingOptions(kWords, kWidth).sparse(true);
    embedding = register_module("embedding", torch::nn::Embedding(options));
    fill(*this, 1);
    table = embedding->weight;
    if (use == Use::layer) register_parameter("output", table);
  }
  at::Tensor forward(const at::Tensor& x) {
    namespace F = torch::nn::functional;
    const auto look_up = [&] { return F::embedding(x, table, F::EmbeddingFuncOptions().sparse(true)); };
    if (use == Use::twice) return embedding(x) + 2 * embedding(x.add(1));
    if (use == Use::whole) return look_up() * table.sum();
    return look_up();
  }
  Use use;
  at::Tensor table;
  torch::nn::Embedding embedding{nullptr};
};
TORCH_MODULE(SharedTable);
using Use = SharedTableImpl::Use;

TEST_F(Sparse, ATableThatIsUsedTwice) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(SharedTable(Use::twice), communicator);
    model(words_of(communicator.rank(), 1)).sum().backward();
    const at::Tensor sum = model->table.grad().to_dense().sum();
    EXPECT_FLOAT_EQ(sum.item<float>(), 3 * 12.0f * kWidth) << "12 words a rank, once and twice";
  });
}

TEST_F(Sparse, ATableThatAFunctionUsesIsNamed) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallelOptions options;
    options.sparse_parameters = {"table"};
    DistributedDataParallel model(SharedTable(Use::function), communicator, options);
    model(words_of(communicator.rank(), 1)).sum().backward();
    EXPECT_TRUE(model->table.grad().is_sparse());
    const at::Tensor sum = model->table.grad().to_dense().sum();
    EXPECT_FLOAT_EQ(sum.item<float>(), 12.0f * kWidth) << "12 words a rank";
  });
}

void expect_refused(const std::string& expected, const std::function<void(Communicator&)>& body) {
  const std::string error = error_of_all(2, body);
  EXPECT_NE(error.find(expected), std::string::npos) << error;
}

TEST_F(Sparse, WhatCannotBeAveragedIsRefusedOnAllRanks) {
  const auto wrap = [](Use use, std::vector<std::string> names) {
    return [=](Communicator& communicator) {
      DistributedDataParallelOptions options;
      options.sparse_parameters = names;
      DistributedDataParallel model(SharedTable(use), communicator, options);
      model(words_of(communicator.rank(), 1)).sum().backward();
    };
  };
  expect_refused("parameter 'output' is the table of an embedding with sparse gradients too",
                 wrap(Use::layer, {}));
  expect_refused("the gradient of 'table' is dense and a sparse one was expected",
                 wrap(Use::whole, {"table"}));
  expect_refused(
      "the gradient of 'table' is sparse and a dense one was expected: name it in sparse_parameters",
      wrap(Use::function, {}));
  expect_refused("sparse_parameters names 'tabel', which is no parameter", wrap(Use::function, {"tabel"}));
}

TEST_F(Sparse, ARankThatDiffersIsNamed) {
  const auto table = [](std::int64_t width, bool sparse) {
    return torch::nn::Embedding(torch::nn::EmbeddingOptions(10, width).sparse(sparse));
  };
  const auto odd = [](Communicator& communicator) { return communicator.rank() == 1; };
  expect_refused(
      "rank 1 has 'weight' Float [10, 5], with sparse gradients where rank 0 has 'weight' Float [10, 4]",
      [&](Communicator& c) { DistributedDataParallel(table(odd(c) ? 5 : 4, true), c); });
  expect_refused(
      "rank 1 has 'weight' Float [10, 4] where rank 0 has 'weight' Float [10, 4], with sparse gradients",
      [&](Communicator& c) { DistributedDataParallel(table(4, !odd(c)), c); });
  expect_refused("sparse_method", [&](Communicator& c) {
    DistributedDataParallelOptions options;
    if (odd(c)) options.sparse_method = SparseMethod::all_gather;
    DistributedDataParallel(table(4, true), c, options);
  });
  expect_refused("the gradient of 'weight' is dense and a sparse one was expected", [&](Communicator& c) {
    DistributedDataParallel model(table(4, true), c);
    at::Tensor loss = model(at::arange(3, at::kLong)).sum();
    if (odd(c)) loss = loss + model->weight.sum();
    loss.backward();
  });
}

}  // namespace
}  // namespace kolo::test::ddp
