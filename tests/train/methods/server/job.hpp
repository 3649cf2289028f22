// A job of servers and workers as threads of the test.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/sgd.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kolo/store.hpp"
#include "methods/parameter_server.hpp"
#include "support/watchdog.hpp"
#include "train/support/models.hpp"

namespace kolo::test::server {

using namespace methods;

inline OptimizerFactory sgd(double rate, double momentum = 0) {
  return [=](const std::vector<at::Tensor>& parameters) {
    return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(rate).momentum(momentum));
  };
}

/// Runs `body` as each rank and returns what each threw (null: nothing).
inline std::vector<std::exception_ptr> run_job(
    int size, const std::function<void(std::shared_ptr<Store>, int rank)>& body,
    std::shared_ptr<Store> store = make_memory_store()) {
  const Watchdog watchdog(std::chrono::seconds(60));
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(store, rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline void require_none(const std::vector<std::exception_ptr>& errors) {
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// Servers that serve, and workers of a Chain. `work` gets the client and its model.
struct Job {
  ParameterServerOptions options = {};
  ParameterServerSettings settings = {.make_optimizer = sgd(0.1)};
  int workers = 2;
  std::shared_ptr<Store> store = make_memory_store();

  std::vector<std::exception_ptr> run(
      const std::function<void(ParameterServerClient&, ChainImpl&)>& work,
      const std::function<void(int server, const ParameterServerStatistics&)>& served = {}) const {
    return run_job(
        options.servers + workers,
        [&](const std::shared_ptr<Store>& with, int rank) {
          ChainImpl model(1);  // all ranks begin alike
          const int size = options.servers + workers;
          if (rank < options.servers) {
            ParameterServer server(with, rank, size, model, options, settings);
            const ParameterServerStatistics& statistics = server.serve();
            if (served) served(rank, statistics);
            return;
          }
          ParameterServerClient client(with, rank, size, model, options);
          work(client, model);
        },
        store);
  }
};

/// Gradients of a loss that depends on the worker and its step.
inline void compute(ChainImpl& model, int worker, int step) {
  for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
  const double seed = 100 * worker + step;
  squares(model.forward(numbers(3, 8, seed)), numbers(3, 4, seed + 0.5)).backward();
}

inline double difference(ChainImpl& one, ChainImpl& other) {
  double most = 0;
  for (std::size_t i = 0; i < one.parameters().size(); ++i) {
    const at::Tensor gap = (one.parameters()[i] - other.parameters()[i]).abs().max();
    most = std::max(most, gap.item<double>());
  }
  return most;
}

}  // namespace kolo::test::server
