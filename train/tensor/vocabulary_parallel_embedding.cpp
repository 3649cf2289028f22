#include "kolo/train/parallel_layers.hpp"

#include <ATen/Functions.h>

#include <ostream>
#include <sstream>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/group_functions.hpp"
#include "tensor/whole_values.hpp"

namespace kolo {

VocabularyParallelEmbeddingImpl::VocabularyParallelEmbeddingImpl(
    const VocabularyParallelEmbeddingOptions& options_, Communicator group)
    : options(options_), group_(std::move(group)) {
  std::ostringstream text;
  text << std::boolalpha << "vocabulary " << options.vocabulary << ", features " << options.features
       << ", sequence " << options.sequence;
  agree_on_module("VocabularyParallelEmbedding", group_, text.str(), &options.generator, [&] {
    train::require_enough(options.vocabulary, "rows (vocabulary)", group_.size());
    train::require_positive(options.features, "features");
  });
  rows = slice_of(options.vocabulary, group_.rank(), group_.size());
  weight = register_parameter(
      "weight",
      train::own_part(train::normal_values({options.vocabulary, options.features}, options.generator), 0,
                      rows.begin, rows.length));
  slices_ = {{"weight", 0, rows, options.vocabulary}};
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

void VocabularyParallelEmbeddingImpl::pretty_print(std::ostream& stream) const {
  stream << "kolo::VocabularyParallelEmbedding(" << options.vocabulary << ", " << options.features
         << ", rows from " << rows.begin << " to " << rows.end() << ')';
}

}  // namespace kolo
