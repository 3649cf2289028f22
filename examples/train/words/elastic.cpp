#include "words/elastic.hpp"

#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "kolo/kolo.hpp"
#include "kolo/train/data.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/elastic.hpp"
#include "support/sample_record.hpp"
#include "words/model.hpp"

namespace words {
namespace {

void print(const nlohmann::json& event) {
  std::puts(event.dump().c_str());
  std::fflush(stdout);
}

std::uint16_t port_of(const std::string& address) {
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

/// The store, served by this process once it is to.
class OwnStore {
 public:
  explicit OwnStore(const ElasticRun& run) : run_(run) {}

  std::shared_ptr<kolo::Store> serve() {
    server_.reset();
    server_ = kolo::serve_tcp_store(run_.address, port_of(run_.stores.front()), run_.key);
    return connect(run_.address);
  }
  std::shared_ptr<kolo::Store> connect(const std::string& host) const {
    return kolo::connect_tcp_store(host, port_of(run_.stores.front()), run_.key, std::chrono::seconds(60));
  }

 private:
  const ElasticRun& run_;
  std::unique_ptr<kolo::TcpStoreServer> server_;
};

kolo::Communicator meet(const ElasticRun& run, OwnStore& own) {
  if (run.joins) {
    std::vector<std::string> urls;
    for (const std::string& address : run.stores) urls.push_back("tcp://" + address);
    return kolo::Communicator::join(urls, {.key = run.key});
  }
  const kolo::Launch launch = kolo::launch_from_environment();
  const std::string& first = run.stores.front();
  return kolo::Communicator::create(
      launch.rank == 0 ? own.serve() : own.connect(first.substr(0, first.rfind(':'))), launch.rank,
      launch.size, {.key = run.key});
}

}  // namespace

void train_elastically(const ElasticRun& run) {
  torch::manual_seed(static_cast<std::int64_t>(run.seed));
  const Model net(run.vocabulary, run.width, true);
  torch::optim::SGD optimizer(net->parameters(), run.learning_rate);
  std::optional<kolo::DistributedDataParallel<ModelImpl>> model;
  std::optional<kolo::DistributedSampler> sampler;
  support::SampleRecord record(run.record);

  const auto setup = [&](kolo::Communicator& group, kolo::Checkpoint& state) {
    record.number_group(group);
    model.emplace(net.ptr(), group);
    sampler.emplace(run.text.size(0) - kContext, group.rank(), group.size(),
                    kolo::DistributedSamplerOptions{.seed = run.seed});
    state.add("model", *model).add("optimizer", optimizer).add("sampler", *sampler);
  };
  const auto step = [&](kolo::Communicator& group, std::uint64_t finished) {
    if (finished >= static_cast<std::uint64_t>(run.steps)) return false;
    auto taken = sampler->next(static_cast<std::size_t>(run.tokens));
    if (!taken) {
      sampler->reset();
      taken = sampler->next(static_cast<std::size_t>(run.tokens));
    }
    const std::vector<std::int64_t> samples(taken->begin(), taken->end());
    record.take(finished, sampler->epoch(), samples);
    const Batch batch =
        batch_at(run.text, at::tensor(samples, at::kLong), net->sampler, run.negatives, run.seed, finished);

    optimizer.zero_grad();
    const at::Tensor loss = (*model)(batch.context, batch.targets, batch.negatives);
    loss.backward();
    const double mean = group.all_reduce(loss.item<double>(), kolo::ReduceOp::average);
    optimizer.step();
    if (group.rank() == 0) {
      print({{"event", "step"},
             {"step", finished + 1},
             {"ranks", group.size()},
             {"loss", mean},
             {"words", samples.size() * static_cast<std::size_t>(group.size())}});
    }
    return true;
  };
  OwnStore own(run);
  kolo::ElasticOptions options;
  options.serve = [&] { return own.serve(); };
  options.on_change = [&](const kolo::ElasticChange& change) {
    nlohmann::json event = record.begin_group(change);
    event["event"] = "group";
    print(event);
  };
  kolo::Communicator ranks = meet(run, own);
  kolo::run_elastic(ranks, options, setup, step);
}

}  // namespace words
