#include "kolo/train/sync_batch_norm.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "kolo/error.hpp"
#include "kolo/train/tensor.hpp"
#include "ranks/span.hpp"

namespace kolo {
namespace {

/// All dimensions of `input` but the features'.
std::vector<std::int64_t> sample_dimensions(const at::Tensor& input) {
  std::vector<std::int64_t> dimensions{0};
  for (std::int64_t d = 2; d < input.dim(); ++d) dimensions.push_back(d);
  return dimensions;
}

/// A value a feature, as something that broadcasts over `input`.
at::Tensor along_features(const at::Tensor& values, const at::Tensor& input) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(input.dim()), 1);
  sizes[1] = values.numel();
  return values.to(input.scalar_type()).view(sizes);
}

/// Of the values of one feature; tensors of float64 [features], on the CPU until all ranks' are known.
struct Moments {
  double count = 0;
  at::Tensor mean;
  at::Tensor squares;  ///< sum of squared distances from the mean
};

Moments local_moments(const at::Tensor& input) {
  const std::int64_t features = input.size(1);
  if (input.numel() == 0) return {0, at::zeros({features}, at::kDouble), at::zeros({features}, at::kDouble)};
  const auto count = static_cast<double>(input.numel() / features);
  const auto [mean, variance] = at::batch_norm_update_stats(input, {}, {}, 0);
  return {count, mean.to(at::kCPU, at::kDouble), variance.to(at::kCPU, at::kDouble) * count};
}

/// T. Chan, G. Golub, R. LeVeque: "Updating Formulae and a Pairwise Algorithm for Computing Sample
/// Variances", 1979, formula 1.5.
void merge(Moments& into, const Moments& other) {
  if (other.count == 0) return;
  const double count = into.count + other.count;
  const at::Tensor distance = other.mean - into.mean;
  into.mean = into.mean + distance * (other.count / count);
  into.squares = into.squares + other.squares + distance.square() * (into.count * other.count / count);
  into.count = count;
}

/// Collective: of all ranks' values, with the same bits on all ranks.
Moments global_moments(const at::Tensor& input, Communicator& communicator) {
  const train::Span span(communicator, "batch statistics");
  const Moments mine = local_moments(input);
  const std::int64_t features = input.size(1), ranks = communicator.size();
  const at::Tensor packed = at::cat({at::full({1}, mine.count, at::kDouble), mine.mean, mine.squares});
  const at::Tensor all = at::empty({ranks, 1 + 2 * features}, at::kDouble);
  all_gather_async(packed, all, communicator, {}, {.waits_at_once = true}).wait();
  Moments total{0, at::zeros({features}, at::kDouble), at::zeros({features}, at::kDouble)};
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const at::Tensor row = all[rank];
    merge(total, {row[0].item<double>(), row.slice(0, 1, 1 + features), row.slice(0, 1 + features)});
  }
  total.mean = total.mean.to(input.device());
  total.squares = total.squares.to(input.device());
  return total;
}

/// What backward keeps beside tensors.
struct Kept : torch::CustomClassHolder {
  Kept(Communicator communicator_, std::function<double()> loss_factor_, double count_, double eps_)
      : communicator(std::move(communicator_)),
        loss_factor(std::move(loss_factor_)),
        count(count_),
        eps(eps_) {}

  Communicator communicator;
  std::function<double()> loss_factor;
  double count;  ///< values a feature, of all ranks
  double eps;
};

/// Normalizes by statistics to which every rank's values contribute, so that its backward is collective too.
class Normalize : public torch::autograd::Function<Normalize> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias, const Moments& moments,
                            double eps, const Communicator& communicator,
                            const std::function<double()>& loss_factor) {
    const at::Tensor variance = moments.squares / moments.count;
    context->save_for_backward({input, weight, moments.mean, variance});
    context->saved_data["kept"] =
        c10::IValue::make_capsule(c10::make_intrusive<Kept>(communicator, loss_factor, moments.count, eps));
    if (input.numel() == 0) return at::empty_like(input);  // a division by zero in libtorch 1.13
    const at::ScalarType type = input.scalar_type();
    return std::get<0>(
        at::native_batch_norm(input, weight, bias, moments.mean.to(type), variance.to(type), false, 0, eps));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    if (c10::GradMode::is_enabled()) {
      throw InvalidArgumentError(
          "SyncBatchNorm has no second derivative (create_graph): its backward adds up over the ranks", {});
    }
    const auto saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1];
    const auto capsule = context->saved_data["kept"].toCapsule();
    auto& kept = static_cast<Kept&>(*capsule);
    const at::Tensor& above = gradients[0];
    const at::Tensor scale = (saved[3] + kept.eps).rsqrt();  // 1 / deviation
    const at::Tensor normalized = (input - along_features(saved[2], input)) * along_features(scale, input);
    const auto dimensions = sample_dimensions(input);
    const at::Tensor sum = above.sum(dimensions), weighted = (above * normalized).sum(dimensions);

    // This rank's gradients are multiplied by `share` later on, so only its part of the sums is already now.
    const double share = kept.loss_factor ? kept.loss_factor() : 1;
    const at::Tensor sums = at::cat({sum, weighted}).to(at::kDouble).mul_(share);
    const train::Span span(kept.communicator, "gradients of batch statistics");
    all_reduce_async(sums, kept.communicator, ReduceOp::sum, {.waits_at_once = true}).order();
    const std::int64_t features = input.size(1);
    if (share != 0) sums.div_(kept.count * share);  // with 0, what is given below does not count
    const at::Tensor mean_above = sums.slice(0, 0, features), mean_weighted = sums.slice(0, features);
    const at::Tensor factor = scale * weight.to(at::kDouble);
    const at::Tensor below =
        (above - along_features(mean_above, input) - normalized * along_features(mean_weighted, input)) *
        along_features(factor, input);
    return {below, weighted, sum, {}, {}, {}, {}};
  }
};

const torch::nn::BatchNormOptions& require_features(const torch::nn::BatchNormOptions& options) {
  if (options.num_features() >= 1) return options;
  throw InvalidArgumentError("SyncBatchNorm: num_features is less than 1", {});
}

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& options_, Communicator communicator)
    : NormImplBase(require_features(options_)), communicator_(std::move(communicator)) {
  if (!communicator_.valid()) throw InvalidArgumentError("SyncBatchNorm: the communicator is not valid", {});
}

void SyncBatchNormImpl::_check_input_dim(const at::Tensor& input) {
  if (input.dim() >= 2 && input.size(1) == options.num_features()) return;
  throw InvalidArgumentError("SyncBatchNorm takes [samples, " + std::to_string(options.num_features()) +
                                 ", ...], not a tensor of " + c10::str(input.sizes()),
                             {});
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  _check_input_dim(input);
  const bool is_short = input.scalar_type() == at::kHalf || input.scalar_type() == at::kBFloat16;
  const at::Tensor values = (is_short ? input.to(at::kFloat) : input).contiguous();
  if (!is_training() && values.numel() == 0) return input.clone();
  const auto as_values = [&](const at::Tensor& t) { return t.defined() ? t.to(values.scalar_type()) : t; };
  if (!is_training()) {
    return at::batch_norm(values, as_values(weight), as_values(bias), as_values(running_mean),
                          as_values(running_var), !running_mean.defined(), 0, options.eps(), false)
        .to(input.scalar_type());
  }
  const Moments moments = [&] {
    const c10::NoGradGuard no_grad;
    Moments found = global_moments(values, communicator_);
    if (found.count < 2)
      throw InvalidArgumentError(
          "SyncBatchNorm needs two values a feature in training, of all ranks together", {});
    if (running_mean.defined()) {
      num_batches_tracked.add_(1);
      const double share = options.momentum() ? *options.momentum() : 1 / num_batches_tracked.item<double>();
      const auto follow = [share](at::Tensor& running, const at::Tensor& now) {
        running.copy_(running.to(at::kDouble).mul_(1 - share).add_(now, share));  // rounded once
      };
      follow(running_mean, found.mean);
      follow(running_var, found.squares / (found.count - 1));
    }
    return found;
  }();
  // Without affine, ones and zeros: autograd's functions take no undefined tensors.
  const std::int64_t features = options.num_features();
  const at::Tensor factors = weight.defined() ? as_values(weight) : at::ones({features}, values.options());
  const at::Tensor terms = bias.defined() ? as_values(bias) : at::zeros({features}, values.options());
  return Normalize::apply(values, factors, terms, moments, options.eps(), communicator_, loss_factor_)
      .to(input.scalar_type());
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "kolo::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps() << ')';
}

}  // namespace kolo
