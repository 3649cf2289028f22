// starter: the program to copy. All ranks train one network on images of clothes, with a data loader, a
// learning rate that rises and falls, evaluations, and checkpoints in a folder that all ranks see (without
// one: none). The images are those of Debian's package dataset-fashion-mnist, unpacked:
//
//     for f in /usr/share/datasets/fashion-mnist/*.gz; do gunzip -c $f > data/$(basename $f .gz); done
//     g++ -std=c++20 -O2 starter.cpp $(pkg-config --cflags --libs kolo-train) -o starter
//     kolo run -n 2 -- ./starter data 1400 checkpoints
#include <kolo/train/libtorch.hpp>  // before libtorch's own headers, for clang; has problem_of()

#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <kolo/kolo.hpp>
#include <kolo/train/averages.hpp>
#include <kolo/train/checkpoint.hpp>
#include <kolo/train/data.hpp>
#include <kolo/train/distributed_data_parallel.hpp>
#include <kolo/train/optim.hpp>
#include <kolo/train/tensor.hpp>
#include <kolo/train/training_schedule.hpp>
#include <string>

using torch::data::datasets::MNIST;  // a data set of yours: torch::data::datasets::Dataset, or TensorDataset

constexpr int kBatch = 128;                  // samples in a step, of all ranks together
constexpr std::uint64_t kReportEvery = 100;  // steps between evaluations, and between checkpoints

struct NetImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& pixels) {
    at::Tensor x = (pixels - 0.286) / 0.353;  // the training images' mean and deviation
    x = at::relu(at::max_pool2d(first(x), 2));
    x = at::relu(at::max_pool2d(second(x), 2));
    return output(at::relu(hidden(x.flatten(1))));
  }
  torch::nn::Conv2d first = register_module("first", torch::nn::Conv2d(1, 16, 3));
  torch::nn::Conv2d second = register_module("second", torch::nn::Conv2d(16, 32, 3));
  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(32 * 5 * 5, 64));
  torch::nn::Linear output = register_module("output", torch::nn::Linear(64, 10));
};
TORCH_MODULE(Net);

// The part of the test images that the network gets right. Each rank looks at its share of them.
double evaluate(Net& net, const MNIST& test, kolo::Communicator& communicator) {
  const torch::NoGradGuard no_grad;
  net->eval();
  const at::Tensor share = at::arange(communicator.rank(), test.targets().size(0), communicator.size());
  double right = 0;
  for (const at::Tensor& some : share.split(500)) {
    const at::Tensor guesses = net(test.images().index_select(0, some)).argmax(1);
    right += guesses.eq(test.targets().index_select(0, some)).sum().item<double>();
  }
  net->train();
  const auto samples = static_cast<double>(share.size(0));
  return kolo::average({{"accuracy", right / samples}}, communicator, samples).at("accuracy");
}

void train(const std::string& data, std::uint64_t steps, const std::string& folder) {
  kolo::Communicator communicator = kolo::Communicator::create();  // the job's ranks, from the environment
  Net net;
  kolo::DistributedDataParallel model(net, communicator);  // all ranks begin with rank 0's parameters
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0).momentum(0.9));
  const auto rate = kolo::TrainingSchedule::cosine(0.05, {.total = steps, .warm_up = steps / 10});

  MNIST images(data), test(data, MNIST::Mode::kTest);
  kolo::DistributedSampler sampler(images.targets().size(0), communicator.rank(), communicator.size());
  auto loader = torch::data::make_data_loader(images.map(torch::data::transforms::Stack<>()), sampler,
                                              kBatch / communicator.size());
  kolo::Checkpoint checkpoint;
  checkpoint.add("model", model).add("optimizer", optimizer).add("sampler", sampler);
  std::uint64_t step = folder.empty() ? 0 : checkpoint.resume(folder, communicator);
  const bool speaks = communicator.rank() == 0;
  if (speaks) std::printf("%d ranks begin at step %lu\n", communicator.size(), step);
  while (step < steps) {
    for (auto& batch : *loader) {
      kolo::set_learning_rate(optimizer, rate(step));
      optimizer.zero_grad();
      const at::Tensor loss = torch::nn::functional::cross_entropy(model(batch.data), batch.target);
      loss.backward();  // the gradients are averages over all ranks when it returns
      optimizer.step();
      if (++step % kReportEvery != 0 && step != steps) continue;
      const double mean = kolo::average({{"loss", loss.item<double>()}}, communicator).at("loss");
      const double right = evaluate(net, test, communicator);
      if (!folder.empty()) checkpoint.save(folder, step, communicator);  // written while training goes on
      if (speaks) std::printf("step %lu: loss %.4f, %.2f %% right\n", step, mean, 100 * right);
      if (step == steps) break;
    }
  }
  checkpoint.wait();
}

int main(int argc, char** argv) {
  kolo::keep_freed_memory();                 // faster steps
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // lines come at once, into files too
  if (argc < 3) return std::fprintf(stderr, "usage: %s DATA STEPS [FOLDER]\n", argv[0]), 2;
  const std::string problem =  // what it throws, in words, without libtorch's stack
      kolo::problem_of([&] { train(argv[1], std::strtoull(argv[2], nullptr, 10), argc > 3 ? argv[3] : ""); });
  if (!problem.empty()) std::fprintf(stderr, "%s\n", problem.c_str());
  return problem.empty() ? 0 : 1;
}
