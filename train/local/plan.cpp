#include "local/plan.hpp"

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/tensor.hpp"
#include "ranks/failure.hpp"
#include "ranks/replicas.hpp"

namespace kolo::train {

AgreedModel agree_on_model(const char* who, const torch::nn::Module& module, Communicator& communicator,
                           const std::string& settings,
                           const std::function<void(const Model&)>& require_valid) {
  AgreedModel agreed;
  std::string lines;
  agree(communicator, who, lines, [&] {
    const Model model(module, DistributedDataParallelOptions{});
    require_valid(model);
    agreed = {.parameters = model.trainable, .buffers = {}, .frozen = model.frozen, .all = model.all()};
    for (const NamedTensor& buffer : model.buffers) {
      if (!buffer.tensor.is_floating_point()) continue;
      dtype_of_tensor(buffer.tensor.scalar_type());
      agreed.buffers.push_back(buffer);
    }
    lines = settings + '\n' + text_of_layout(agreed.all);
  });
  return agreed;
}

AgreedModel agree_and_replicate(const char* who, const torch::nn::Module& module, Communicator& communicator,
                                const std::string& settings,
                                const std::function<void(const Model&)>& require_valid) {
  AgreedModel agreed = agree_on_model(who, module, communicator, settings, require_valid);
  Replicator(agreed.all).run(communicator, 0);
  return agreed;
}

void require_frozen(const AgreedModel& model, Communicator& communicator) {
  for (const NamedTensor& parameter : model.frozen) {
    if (!parameter.tensor.requires_grad()) continue;
    const std::string reason =
        "parameter '" + parameter.name + "' was frozen at first and is not now: make a new object";
    abort_unless_failed(communicator, reason);
    throw InvalidArgumentError(reason, {});
  }
}

}  // namespace kolo::train
