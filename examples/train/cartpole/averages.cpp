#include "cartpole/averages.hpp"

#include <stdexcept>

#include "kolo/train/tensor.hpp"

namespace cartpole {
namespace {

class KoloAverages final : public Averages {
 public:
  explicit KoloAverages(const kolo::Communicator& communicator) : communicator_(communicator) {}
  void average(at::Tensor& gradients) override {
    communicator_.all_reduce(kolo::buffer_of(gradients), kolo::ReduceOp::average);
  }

 private:
  kolo::Communicator communicator_;
};

}  // namespace

std::unique_ptr<Averages> make_averages(const std::string& library, kolo::Communicator& communicator) {
  if (library == "kolo") return std::make_unique<KoloAverages>(communicator);
  if (auto averages = make_gloo_averages(communicator)) return averages;
  throw std::runtime_error(
      "--communication gloo: this program was built without Gloo (Debian's package libgloo-dev)");
}

}  // namespace cartpole
