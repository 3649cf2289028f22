#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>

#include <sstream>

#include "kolo/error.hpp"
#include "kolo/train/group_functions.hpp"
#include "kolo/train/slice.hpp"
#include "tensor/construction.hpp"
#include "tensor/group_collectives.hpp"

namespace kolo {
namespace {

/// `scores` [places, slice]; `own` the targets' numbers within the slice, 0 where `elsewhere`.
class SplitCrossEntropy : public torch::autograd::Function<SplitCrossEntropy> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& scores,
                            const at::Tensor& own, const at::Tensor& elsewhere, Communicator group) {
    const bool is_short = scores.scalar_type() == at::kHalf || scores.scalar_type() == at::kBFloat16;
    const at::Tensor values = is_short ? scores.to(at::kFloat) : scores;
    const at::Tensor most = at::amax(values, {-1});
    const at::Tensor shifted =
        values - (group.size() > 1 ? train::reduce_of_group(most, group, ReduceOp::max) : most).unsqueeze(-1);
    const at::Tensor powers = shifted.exp();
    const at::Tensor right = shifted.gather(-1, own.unsqueeze(-1)).squeeze(-1).masked_fill(elsewhere, 0);
    at::Tensor sums = at::stack({powers.sum(-1), right});
    if (group.size() > 1) sums = train::reduce_of_group(sums, group);
    context->save_for_backward({powers / sums[0].unsqueeze(-1), own, elsewhere});
    context->saved_data["type"] = static_cast<std::int64_t>(scores.scalar_type());
    return sums[0].log() - sums[1];
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    train::refuse_second_derivative("vocabulary_parallel_cross_entropy()");
    const auto saved = context->get_saved_variables();
    const at::Tensor is_right = saved[2].logical_not().to(saved[0].scalar_type()).unsqueeze(-1);
    const at::Tensor below = saved[0].scatter_add(-1, saved[1].unsqueeze(-1), is_right.neg());
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    return {(below * gradients[0].unsqueeze(-1)).to(type), {}, {}, {}};
  }
};

}  // namespace

VocabularyParallelEmbeddingImpl::VocabularyParallelEmbeddingImpl(
    const VocabularyParallelEmbeddingOptions& options_, Communicator group)
    : ParallelLayer(std::move(group)), options(options_) {
  std::ostringstream text;
  text << std::boolalpha << "vocabulary " << options.vocabulary << ", features " << options.features
       << ", sequence " << options.sequence;
  begin_construction("VocabularyParallelEmbedding", text.str(), &options.generator, [&] {
    train::require_enough(options.vocabulary, "rows (vocabulary)", group_.size());
    train::require_positive(options.features, "features");
  });
  rows = slice_of(options.vocabulary, group_.rank(), group_.size());
  weight = register_slice(
      "weight", train::normal_values({options.vocabulary, options.features}, options.generator), 0, rows);
  mark_slices(*this, group_);
}

at::Tensor VocabularyParallelEmbeddingImpl::forward(const at::Tensor& indices) {
  train::require_in_vocabulary(indices, options.vocabulary);
  const at::Tensor own = indices - rows.begin;
  const at::Tensor outside = (own < 0).logical_or(own >= rows.length);
  const at::Tensor found = at::embedding(weight, own.masked_fill(outside, 0));
  const at::Tensor partial = found.masked_fill(outside.unsqueeze(-1), 0);
  return options.sequence ? scatter_sequence(partial, 1, group_) : reduce_from_group(partial, group_);
}

at::Tensor vocabulary_parallel_cross_entropy(const at::Tensor& scores, const at::Tensor& targets,
                                             std::int64_t vocabulary, const Communicator& group,
                                             const VocabularyParallelCrossEntropyOptions& options) {
  train::require_enough(vocabulary, "elements of the vocabulary", group.size());
  const Slice slice = slice_of(vocabulary, group.rank(), group.size());
  train::require_features(scores, slice.length, "vocabulary_parallel_cross_entropy()");
  if (scores.sizes().slice(0, static_cast<std::size_t>(scores.dim() - 1)) != targets.sizes()) {
    throw InvalidArgumentError(
        "scores of " + c10::str(scores.sizes()) + " do not fit targets of " + c10::str(targets.sizes()), {});
  }
  const at::Tensor flat = targets.flatten();
  const at::Tensor ignored = flat == options.ignore_index;
  train::require_in_vocabulary(flat.masked_fill(ignored, 0), vocabulary);
  const at::Tensor own = flat - slice.begin;
  const at::Tensor elsewhere = (own < 0).logical_or(own >= slice.length).logical_or(ignored);
  const at::Tensor losses = SplitCrossEntropy::apply(scores.reshape({-1, slice.length}),
                                                     own.masked_fill(elsewhere, 0), elsewhere, group)
                                .masked_fill(ignored, 0);
  if (!options.mean) return losses.view(targets.sizes());
  return losses.sum() / (flat.numel() - ignored.sum());
}

}  // namespace kolo
