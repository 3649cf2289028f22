// Rows of tables, pushed and pulled by number.
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>
#include <torch/optim/adagrad.h>

#include <string>

#include "kolo/error.hpp"
#include "kolo/train/optim.hpp"
#include "train/methods/server/job.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::server {
namespace {

/// Two tables and a layer.
struct WordsImpl : torch::nn::Module {
  explicit WordsImpl(double seed)
      : words(torch::nn::EmbeddingOptions(11, 3).sparse(true)),
        places(torch::nn::EmbeddingOptions(5, 2).sparse(true)),
        layer(5, 2) {
    register_module("words", words);
    register_module("places", places);
    register_module("layer", layer);
    fill(*this, seed);
  }
  at::Tensor forward(const at::Tensor& word, const at::Tensor& place) {
    return layer(at::cat({words(word), places(place)}, 1));
  }

  torch::nn::Embedding words, places;
  torch::nn::Linear layer;
};

at::Tensor words_of(int worker, int step) {
  return at::arange(4, at::kLong).mul(3).add(worker + 2 * step).remainder(11);
}
at::Tensor places_of(int worker, int step) {
  return at::arange(4, at::kLong).add(worker + step).remainder(5);
}

void compute_rows(WordsImpl& model, int worker, int step) {
  for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
  const at::Tensor output = model.forward(words_of(worker, step), places_of(worker, step));
  squares(output, numbers(4, 2, step)).backward();
}

struct Kind {
  const char* name;
  OptimizerFactory make;
};

std::vector<Kind> kinds() {
  return {{"SGD", sgd(0.1)},
          {"Adagrad",
           [](const std::vector<at::Tensor>& parameters) {
             return std::make_unique<torch::optim::Adagrad>(parameters, torch::optim::AdagradOptions(0.1));
           }},
          {"SparseAdam", [](const std::vector<at::Tensor>& parameters) {
             return std::make_unique<SparseAdam>(parameters, torch::optim::AdamOptions(0.01));
           }}};
}

constexpr int kRowWorkers = 2;
constexpr int kRowSteps = 6;

/// One process that adds up the workers' gradients.
WordsImpl train_rows_alone(const OptimizerFactory& make) {
  WordsImpl model(1);
  const auto optimizer = make(model.parameters());
  for (int step = 0; step < kRowSteps; ++step) {
    for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
    at::Tensor loss = at::zeros({});
    for (int worker = 0; worker < kRowWorkers; ++worker) {
      const at::Tensor output = model.forward(words_of(worker, step), places_of(worker, step));
      loss = loss + squares(output, numbers(4, 2, step)) / kRowWorkers;
    }
    loss.backward();
    optimizer->step();
  }
  return model;
}

TEST(ServerTables, RowsLieOnSeveralServersAndMoveAsInOneProcess) {
  for (const Kind& kind : kinds()) {
    for (const int servers : {1, 3}) {
      // SparseAdam counts updates with rows of a table, and here a server of three has none in some.
      if (servers > 1 && std::string(kind.name) == "SparseAdam") continue;
      const WordsImpl alone = train_rows_alone(kind.make);
      const ParameterServerOptions options{.servers = servers};
      const int size = servers + kRowWorkers;
      require_none(run_job(size, [&](const std::shared_ptr<Store>& store, int rank) {
        WordsImpl model(1);
        if (rank < servers) {
          ParameterServer server(store, rank, size, model, options, {.make_optimizer = kind.make});
          EXPECT_EQ(server.serve().updates, kRowSteps);
          return;
        }
        ParameterServerClient client(store, rank, size, model, options);
        client.pull();
        for (int step = 0; step < kRowSteps; ++step) {
          client.pull_rows("words.weight", words_of(client.worker(), step));
          client.pull_rows("places.weight", places_of(client.worker(), step));
          compute_rows(model, client.worker(), step);
          client.step();
        }
        client.finish();
        client.pull_rows("words.weight", at::arange(11, at::kLong));
        client.pull_rows("places.weight", at::arange(5, at::kLong));
        for (std::size_t i = 0; i < model.parameters().size(); ++i) {
          const at::Tensor gap = (model.parameters()[i] - alone.parameters()[i]).abs().max();
          EXPECT_LT(gap.item<double>(), 1e-5) << kind.name << ", " << servers << " servers, parameter " << i;
        }
      }));
    }
  }
}

TEST(ServerTables, RowsThatAreNotPulledStayAsTheyAre) {
  const ParameterServerOptions options{.servers = 2, .rule = ServerRule::unbounded};
  require_none(run_job(3, [&](const std::shared_ptr<Store>& store, int rank) {
    WordsImpl model(rank == 2 ? 7 : 1);  // the worker begins elsewhere
    if (rank < 2) {
      ParameterServer(store, rank, 3, model, options, {.make_optimizer = sgd(0.1)}).serve();
      return;
    }
    const WordsImpl served(1), own(7);
    ParameterServerClient client(store, rank, 3, model, options);
    client.pull_rows("words.weight", at::tensor({9, 2, 9}, at::kLong));
    for (std::int64_t row = 0; row < 11; ++row) {
      const WordsImpl& whose = row == 9 || row == 2 ? served : own;
      EXPECT_TRUE(at::equal(model.words->weight[row], whose.words->weight[row])) << row;
    }
  }));
}

TEST(ServerTables, WhatIsNoRowIsRefused) {
  const ParameterServerOptions options{};
  require_none(run_job(2, [&](const std::shared_ptr<Store>& store, int rank) {
    WordsImpl model(1);
    if (rank == 0) {
      ParameterServer(store, rank, 2, model, options, {.make_optimizer = sgd(0.1)}).serve();
      return;
    }
    ParameterServerClient client(store, rank, 2, model, options);
    EXPECT_THROW(client.pull_rows("layer.weight", at::arange(1, at::kLong)), InvalidArgumentError);
    EXPECT_THROW(client.pull_rows("words.weight", at::tensor({11}, at::kLong)), InvalidArgumentError);
    try {
      client.pull_rows("words.weight", at::tensor({3, -1}, at::kLong));
      ADD_FAILURE() << "row -1 was pulled";
    } catch (const InvalidArgumentError& error) {
      EXPECT_NE(std::string(error.what()).find("row -1 was asked for"), std::string::npos) << error.what();
    }
    client.pull();  // and it goes on
  }));
}

}  // namespace
}  // namespace kolo::test::server
