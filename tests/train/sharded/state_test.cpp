// What may happen to a sharded model between its steps: reads, writes, loads, casts, checkpoints, ranks that
// do something else.
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/serialize/archive.h>
#include <torch/torch.h>

#include <filesystem>
#include <functional>
#include <map>
#include <sstream>
#include <string>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/checkpoint.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/sharded/tower.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::sharded::state {
namespace {

using Sharded = ShardedDataParallel<TowerImpl>;

at::Tensor input(int seed) {
  return numbers(3, 7, seed).to(at::kDouble);
}
at::Tensor loss(const at::Tensor& output) {
  return squares(output, input(900));
}

std::vector<at::Tensor> copies_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& parameter : unique_parameters(module)) result.push_back(parameter.detach().clone());
  return result;
}
std::vector<at::Tensor> values_of(Sharded& model) {
  const auto whole = model.whole();
  return copies_of(model.model());
}
double difference(const std::vector<at::Tensor>& some, const std::vector<at::Tensor>& others) {
  double most = 0;
  for (std::size_t i = 0; i < some.size(); ++i)
    most = std::max(most, (some[i] - others[i]).abs().max().item().toDouble());
  return most;
}

void step(Sharded& model, torch::optim::Optimizer& optimizer, int seed) {
  optimizer.zero_grad();
  loss(model(input(seed))).backward();
  optimizer.step();
}

std::string archive_of(torch::nn::Module& module) {
  torch::serialize::OutputArchive archive;
  module.save(archive);
  std::ostringstream bytes;
  archive.save_to(bytes);
  return bytes.str();
}
void load(torch::nn::Module& module, const std::string& bytes) {
  std::istringstream stream(bytes);
  torch::serialize::InputArchive archive;
  archive.load_from(stream);
  module.load(archive);
}

/// What a program may do with the model between backward() and step().
const std::map<std::string, std::function<void(Sharded&)>> kReads = {
    {"nothing", [](Sharded&) {}},
    {"a forward", [](Sharded& model) { model(input(7)); }},
    {"an evaluation",
     [](Sharded& model) {
       const c10::NoGradGuard no_grad;
       model(input(7));
     }},
    {"an evaluation of the model itself",
     [](Sharded& model) {
       const c10::NoGradGuard no_grad;
       model.model().forward(input(7));
     }},
    {"whole()", [](Sharded& model) { const auto whole = model.whole(); }},
};

TEST(ShardedState, ReadsBetweenBackwardAndStepChangeNothing) {
  run_all(2, [](Communicator& communicator) {
    at::set_num_threads(1);
    const int rank = communicator.rank();
    std::vector<at::Tensor> plain, outputs;
    {
      DistributedDataParallel model(Tower(1), communicator);
      torch::optim::SGD optimizer(model.parameters(), 0.1);
      for (int i = 0; i < 4; ++i) {
        optimizer.zero_grad();
        loss(model(input(10 * i + rank))).backward();
        optimizer.step();
        outputs.push_back(model(input(i)).detach());
      }
      plain = copies_of(model.model());
    }
    for (const Shard shard : kShards) {
      for (const auto& [what, read] : kReads) {
        Sharded model(Tower(1), communicator, {.shard = shard});
        torch::optim::SGD optimizer(model.parameters(), 0.1);
        for (int i = 0; i < 4; ++i) {
          optimizer.zero_grad();
          loss(model(input(10 * i + rank))).backward();
          read(model);
          optimizer.step();
          // No forward() of the wrapper: an operation finds out for itself that the shards have moved.
          const c10::NoGradGuard no_grad;
          const at::Tensor output = i % 2 == 0 ? model.model().forward(input(i)) : model(input(i));
          EXPECT_LT(difference({output}, {outputs[static_cast<std::size_t>(i)]}), 1e-12) << what;
        }
        const auto whole = model.whole();
        EXPECT_LT(difference(copies_of(model.model()), plain), 1e-12)
            << "shard " << static_cast<int>(shard) << " with " << what;
        EXPECT_TRUE(same_everywhere(communicator, bits(unique_parameters(model.model())))) << what;
      }
    }
  });
}

TEST(ShardedState, AStepAfterAForwardThatHasNoBackwardIsSeen) {
  run_all(2, [](Communicator& communicator) {
    for (const Shard shard : kShards) {
      Sharded model(Tower(1), communicator, {.shard = shard});
      torch::optim::SGD optimizer(model.parameters(), 0.1);
      step(model, optimizer, 1);
      model(input(2));
      optimizer.step();  // once more, by the same gradients
      const c10::NoGradGuard no_grad;
      const at::Tensor output = model.model().forward(input(3));
      const auto whole = model.whole();
      EXPECT_EQ(difference({output}, {model.model().forward(input(3))}), 0) << static_cast<int>(shard);
    }
  });
}

TEST(ShardedState, AStepWithinWholeIsKept) {
  run_all(2, [](Communicator& communicator) {
    for (const Shard shard : kShards) {
      Sharded model(Tower(1), communicator, {.shard = shard}),
          other(Tower(1), communicator, {.shard = shard});
      torch::optim::SGD optimizer(model.parameters(), 0.1), same(other.parameters(), 0.1);
      loss(model(input(1))).backward();
      {
        const auto whole = model.whole();
        optimizer.step();
      }
      loss(other(input(1))).backward();
      same.step();
      EXPECT_EQ(difference(values_of(model), values_of(other)), 0) << static_cast<int>(shard);
    }
  });
}

TEST(ShardedState, ParametersThatWereReplacedAreAnErrorThatNamesThem) {
  Tower other(5);
  const std::string saved = archive_of(*other);
  const std::map<std::string, std::function<void(Sharded&)>> ways = {
      {"cast", [](Sharded& model) { model.model().to(at::kFloat); }},
      {"cast and whole",
       [](Sharded& model) {
         model.model().to(at::kFloat);
         const auto whole = model.whole();
       }},
      {"cast within whole",
       [](Sharded& model) {
         const auto whole = model.whole();
         model.model().to(at::kFloat);
       }},
      {"loaded", [&](Sharded& model) { load(model.model(), saved); }},
  };
  for (const Shard shard : kShards) {
    for (const auto& [way, replace] : ways) {
      const std::string said = error_of_all(2, [&, &replace = replace](Communicator& communicator) {
        Sharded model(Tower(1), communicator, {.shard = shard});
        torch::optim::SGD optimizer(model.parameters(), 0.1);
        step(model, optimizer, 0);
        replace(model);
        model(input(1).to(model.model().scale.scalar_type()));
      });
      EXPECT_NE(said.find("parameter '"), std::string::npos) << way << ": " << said;
      EXPECT_NE(said.find("make a new one"), std::string::npos) << way << ": " << said;
    }
  }
}

TEST(ShardedState, WhatIsLoadedWithinWholeIsTrained) {
  Tower other(5);
  const std::string saved = archive_of(*other);
  run_all(2, [&](Communicator& communicator) {
    for (const Shard shard : kShards) {
      Sharded model(Tower(1), communicator, {.shard = shard});
      torch::optim::SGD optimizer(model.parameters(), 0.1);
      step(model, optimizer, 0);
      {
        const auto whole = model.whole();
        load(model.model(), saved);
      }
      EXPECT_EQ(difference(values_of(model), copies_of(*other)), 0);
      step(model, optimizer, 1);
      EXPECT_GT(difference(values_of(model), copies_of(*other)), 0);
    }
  });
}

TEST(ShardedState, AWriteThatTheShardsDoNotSeeIsAnErrorThatNamesTheParameter) {
  const std::string said = error_of_all(2, [](Communicator& communicator) {
    Sharded model(Tower(1), communicator, {.shard = Shard::parameters});
    {
      const c10::NoGradGuard no_grad;
      model.model().first->bias.mul_(2);
    }
    model(input(1));
  });
  EXPECT_NE(said.find("parameter 'first.bias' was written to while whole() was not held"), std::string::npos)
      << said;
}

TEST(ShardedState, ABroadcastReachesTheShards) {
  run_all(2, [](Communicator& communicator) {
    for (const Shard shard : kShards) {
      Sharded model(Tower(1), communicator, {.shard = shard});
      torch::optim::SGD optimizer(model.parameters(), 0.1);
      step(model, optimizer, 0);
      const auto before = values_of(model);
      broadcast(model.model(), communicator, 1);
      EXPECT_EQ(difference(values_of(model), before), 0);
      step(model, optimizer, 1);
    }
  });
}

TEST(ShardedState, ACheckpointNeedsNoWhole) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("kolo-sharded-state-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string file = folder / "run";
  run_all(2, [&](Communicator& communicator) {
    for (const Shard shard : kShards) {
      Sharded model(Tower(1), communicator, {.shard = shard});
      torch::optim::SGD optimizer(model.parameters(), 0.1);
      Checkpoint checkpoint;
      checkpoint.add("model", model);
      step(model, optimizer, 0);
      checkpoint.save(file, 3, communicator);
      const auto saved = values_of(model);
      step(model, optimizer, 1);
      const auto later = values_of(model);
      EXPECT_EQ(checkpoint.load(file, communicator), 3U);
      EXPECT_EQ(difference(values_of(model), saved), 0);
      step(model, optimizer, 1);
      EXPECT_EQ(difference(values_of(model), later), 0) << "shard " << static_cast<int>(shard);
    }
  });
  std::filesystem::remove_all(folder);
}

TEST(ShardedState, AdamWSkipsWhatNoRankUses) {
  struct SpareImpl : torch::nn::Module {
    SpareImpl() : used(3, 3), idle(3, 3) {
      register_module("used", used);
      register_module("idle", idle);
      fill(*this, 1);
    }
    at::Tensor forward(const at::Tensor& x, bool all) { return all ? idle(used(x)) : used(x); }
    torch::nn::Linear used, idle;
  };
  run_all(2, [](Communicator& communicator) {
    at::set_num_threads(1);
    const auto steps = [&](auto& model, const std::vector<at::Tensor>& parameters) {
      torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(0.1).weight_decay(0.5));
      // In the first two no rank uses `idle`, in the third one rank does.
      for (int i = 0; i < 4; ++i) {
        optimizer.zero_grad();
        model(numbers(2, 3, i), i == 2 && communicator.rank() == 1).square().sum().backward();
        optimizer.step();
      }
    };
    DistributedDataParallel plain(std::make_shared<SpareImpl>(), communicator, finding_unused());
    steps(plain, plain.parameters());
    for (const Shard shard : kShards) {
      ShardedDataParallel model(std::make_shared<SpareImpl>(), communicator, {.shard = shard});
      steps(model, model.parameters());
      const auto whole = model.whole();
      EXPECT_LT(difference(copies_of(model.model()), copies_of(plain.model())), 1e-6)
          << "shard " << static_cast<int>(shard);
    }
  });
}

TEST(ShardedState, ABackwardThatBreaksOffBeforeItsFirstGradientIsAnErrorOnAllRanks) {
  struct Spill : torch::autograd::Function<Spill> {
    static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                   const torch::autograd::variable_list&) {
      throw std::runtime_error("spilled coffee");
    }
  };
  for (const Shard shard : kShards) {
    const auto run = [](auto& model, int rank) {
      torch::optim::SGD optimizer(model.parameters(), 0.1);
      for (int i = 0; i < 3; ++i) {
        optimizer.zero_grad();
        if (i == 1 && rank == 1) {
          const at::Tensor spilled = Spill::apply(model(input(1)));
          EXPECT_THROW(loss(spilled).backward(), std::runtime_error);
        }
        loss(model(input(i))).backward();
        optimizer.step();
      }
    };
    const std::string said = error_of_all(2, [&](Communicator& communicator) {
      Sharded model(Tower(1), communicator, {.shard = shard});
      run(model, communicator.rank());
    });
    // Backward needs no parameter of the first of two layers, so no gather follows that could differ.
    const std::string with_two = error_of_all(2, [&](Communicator& communicator) {
      torch::nn::Sequential layers(torch::nn::Linear(7, 7), torch::nn::Linear(7, 7));
      layers->to(at::kDouble);
      ShardedDataParallel model(layers, communicator, {.shard = shard});
      run(model, communicator.rank());
    });
    for (const std::string& text : {said, with_two}) {
      EXPECT_NE(text.find("rank 1 called"), std::string::npos) << text;
      EXPECT_NE(text.find("pass 2"), std::string::npos) << text;
      EXPECT_NE(text.find("pass 3"), std::string::npos) << text;
    }
  }
}

TEST(ShardedState, UnitsInAnotherOrderAreAMismatchThatNamesThem) {
  const std::string said = error_of_all(2, [](Communicator& communicator) {
    Sharded model(Tower(1), communicator, {.shard = Shard::parameters, .units = {"list.0", "list.2"}});
    const c10::NoGradGuard no_grad;
    for (const int layer : communicator.rank() == 0 ? std::vector{0, 2} : std::vector{2, 0})
      model.model().list[static_cast<std::size_t>(layer)]->as<torch::nn::Linear>()->forward(input(1));
    model(input(1));
  });
  EXPECT_NE(said.find("for unit 'list.0' in pass 0"), std::string::npos) << said;
  EXPECT_NE(said.find("for unit 'list.2' in pass 0"), std::string::npos) << said;
}

}  // namespace
}  // namespace kolo::test::sharded::state
