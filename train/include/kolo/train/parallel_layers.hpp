// Layers whose work is divided among the ranks of a group, and which part of a parameter each rank has.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any_value.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/slice.hpp"

namespace kolo {

/// What modules have that divide their parameters among a group. A class of the caller's own may derive from
/// it too.
///
/// What follows holds for all modules of kolo that are divided among a group (ColumnParallelLinear,
/// ParallelAttention, MixtureOfExperts, ...). Constructors are collective. Initial values are made whole on
/// each rank, from the option `generator` (undefined: libtorch's default one), in the same state on all ranks
/// (torch::manual_seed() with one seed), and each rank keeps its slice. So the ranks together hold what one
/// process makes of that seed. An option out of its range throws InvalidArgumentError, and ranks that differ
/// in options or seed MismatchError: on all ranks, with the name of the rank that differs. forward() and
/// backward() are collective: the ranks use their modules in the same order. Errors of the communicator leave
/// forward() and backward(). Not thread-safe.
///
/// With `sequence` tensors between the layers are slices along dimension 1, [samples, time / ranks,
/// features]: see gather_sequence(). The argument `whole_sequence` of forward() is the time of all slices
/// together; 0: all ranks' slices are as long as this rank's.
class TensorParallelModule {
 public:
  /// Which part of a parameter this rank has.
  struct SlicedParameter {
    std::string name;            ///< without the names of modules around it
    std::int64_t dimension = 0;  ///< the dimension along which the whole is cut
    Slice slice = {};            ///< the elements along the dimension that this rank holds
    std::int64_t whole = 0;      ///< elements along the dimension, of all slices
  };

  virtual ~TensorParallelModule() = default;
  /// The slices among its own parameters, without those of submodules. Its other parameters are replicated.
  const std::vector<SlicedParameter>& sliced_parameters() const noexcept { return slices_; }
  /// Whether no other rank has its submodules.
  virtual bool owns_submodules() const { return false; }

 protected:
  std::vector<SlicedParameter> slices_;  ///< filled by the constructor
};

/// Collective: what the constructor of such a module begins with. Throws, on all ranks, InvalidArgumentError
/// with what `require_valid` throws on the first rank where it throws, and MismatchError that names the rank
/// whose `text` (one line, the options in words) is not that of most, or whose generator has another state,
/// so that its initial values would not fit theirs (null: it has none that are random).
void agree_on_module(const char* who, Communicator group, const std::string& text,
                     const at::Generator* generator, const std::function<void()>& require_valid);
/// What such a constructor ends with: wrappers take the parameters that are not the same on all ranks for
/// parts of a model. Local.
void mark_slices(const torch::nn::Module& module, const Communicator& group);

/// What the layers of kolo have that divide their parameters: both of that, and how they are printed.
class ParallelLayer : public torch::nn::Module, public TensorParallelModule {
 public:
  /// Writes the options and this rank's slices in one line; libtorch calls it to print a model.
  void pretty_print(std::ostream& stream) const override;

 protected:
  /// Of the ranks that divide the layer.
  explicit ParallelLayer(Communicator group) : group_(std::move(group)) {}
  /// As agree_on_module().
  void begin_construction(const char* who, const std::string& text, const at::Generator* generator,
                          const std::function<void()>& require_valid);
  /// Registers a parameter: a copy of this rank's slice of all its values, which can be freed then.
  at::Tensor register_slice(const std::string& name, const at::Tensor& whole, std::int64_t dimension,
                            const Slice& slice);

  Communicator group_;  ///< as given to the constructor

 private:
  std::string text_;
};

/// Where a rank's tensor lies in the whole of which it is a slice.
struct Split {
  std::int64_t dimension = 0;  ///< the dimension along which the whole is cut
  Slice slice = {};            ///< the elements along the dimension that this rank's tensor has
  std::int64_t whole = 0;      ///< elements along the dimension, of all ranks
};

/// Sets elements to zero with this probability and divides the kept elements by the rest of it. See N.
/// Srivastava et al.: "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", JMLR 2014. Takes
/// one number from `generator` (none: libtorch's default one), and whether an element is dropped depends on
/// rank 0's number and on the element's place in the whole alone. So ranks of `group` that hold the same
/// elements, without `split`, drop the same ones, and slices drop what one process would drop of the whole,
/// whatever the number of ranks, and whatever a rank has drawn alone. Without a group, the generators must be
/// in one state. Groups with other data take another seed after their modules have been made: the first seed
/// and the number of the group, say.
///
/// All ranks of a group must call it alike, and in the same order: it broadcasts 8 bytes. Returns `x` itself,
/// and takes no number, if the probability is 0. Throws InvalidArgumentError unless it is from 0 to below 1,
/// and where the slice is not the tensor's.
at::Tensor split_dropout(const at::Tensor& x, double probability, const std::optional<Split>& split = {},
                         at::Generator generator = {}, Communicator group = {});

/// What a ColumnParallelLinear computes, and how its outputs are divided. The same on all ranks.
struct ColumnParallelLinearOptions {
  std::int64_t in_features = 0;   ///< length of the last dimension of the input; 1 or more
  std::int64_t out_features = 0;  ///< outputs of all ranks together; at least `unit` for each rank
  bool bias = true;               ///< whether a bias is added to the outputs
  /// Every rank gets all outputs. Otherwise each rank gets its slice, as a RowParallelLinear takes it. With a
  /// `unit` above 1 the ranks must then divide the units evenly.
  bool gather_output = false;
  bool sequence = false;  ///< the input is this rank's slice of the sequence, not replicated
  /// Number of consecutive outputs that one rank holds together, as those of an attention head. Divides
  /// out_features.
  std::int64_t unit = 1;
  at::Generator generator = {};  ///< draws the initial values: see TensorParallelModule
};

/// A linear layer, y = x A^T + b, whose outputs are divided among the ranks. Each rank has a slice of the
/// outputs: rows of A and elements of b (M. Shoeybi et al.: "Megatron-LM: Training Multi-Billion Parameter
/// Language Models Using Model Parallelism", 2019, section 3). Forward sends nothing, unless it gathers;
/// backward sums the gradient of `x` over the ranks. Slices need not be equal. A pair of layers, of which
/// only the second one communicates in forward:
///
///     kolo::ColumnParallelLinear up(
///         kolo::ColumnParallelLinearOptions{.in_features = 512, .out_features = 2048}, group);
///     kolo::RowParallelLinear down(
///         kolo::RowParallelLinearOptions{.in_features = 2048, .out_features = 512}, group);
///     const at::Tensor y = down(at::gelu(up(x)));
class ColumnParallelLinearImpl : public ParallelLayer {
 public:
  /// Collective over `group`. Throws InvalidArgumentError, MismatchError: see TensorParallelModule.
  ColumnParallelLinearImpl(const ColumnParallelLinearOptions& options, Communicator group);

  /// `x` [..., in_features], replicated (with `sequence` a slice); returns [..., this rank's out_features],
  /// or with gather_output [..., out_features]. Collective, also in backward. `whole_sequence`: see
  /// TensorParallelModule. Throws InvalidArgumentError for another last dimension.
  at::Tensor forward(const at::Tensor& x, std::int64_t whole_sequence = 0);

  ColumnParallelLinearOptions options;  ///< as given to the constructor
  Slice outputs;                        ///< the outputs that this rank computes
  at::Tensor weight;                    ///< [this rank's out_features, in_features]
  at::Tensor bias;                      ///< [this rank's out_features]; undefined without bias

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(std::int64_t{0})})  // as a layer of a Sequential
};
TORCH_MODULE(ColumnParallelLinear);

/// What a RowParallelLinear computes, and how its inputs are divided. The same on all ranks.
struct RowParallelLinearOptions {
  std::int64_t in_features = 0;   ///< inputs of all ranks together; at least `unit` for each rank
  std::int64_t out_features = 0;  ///< length of the last dimension of the output; 1 or more
  bool bias = true;               ///< whether a bias, which all ranks hold, is added to the sum
  /// `x` is a slice, as ColumnParallelLinear leaves it. Otherwise it is replicated, and each rank takes its
  /// slice; with a `unit` above 1 the ranks must then divide the units evenly.
  bool input_is_slice = true;
  bool sequence = false;  ///< the output is this rank's slice of the sequence, not replicated
  /// Number of consecutive inputs that one rank holds together, as those of an attention head. Divides
  /// in_features.
  std::int64_t unit = 1;
  at::Generator generator = {};  ///< draws the initial values: see TensorParallelModule
};

/// A linear layer, y = x A^T + b, whose inputs are divided among the ranks. Each rank has a slice of the
/// inputs: columns of A (M. Shoeybi et al. 2019, section 3). Forward sums y over the ranks, which all add the
/// replicated b; backward sends nothing. Slices need not be equal. See ColumnParallelLinearImpl for an
/// example.
class RowParallelLinearImpl : public ParallelLayer {
 public:
  /// Collective over `group`. Throws InvalidArgumentError, MismatchError: see TensorParallelModule.
  RowParallelLinearImpl(const RowParallelLinearOptions& options, Communicator group);

  /// `x` [..., this rank's in_features], or with input_is_slice = false [..., in_features]; returns
  /// [..., out_features], replicated (with `sequence` a slice). Collective. Throws InvalidArgumentError for
  /// another last dimension.
  at::Tensor forward(const at::Tensor& x);

  RowParallelLinearOptions options;  ///< as given to the constructor
  Slice inputs;                      ///< the inputs that this rank reads
  at::Tensor weight;                 ///< [out_features, this rank's in_features]
  at::Tensor bias;                   ///< [out_features], replicated; undefined without bias
};
TORCH_MODULE(RowParallelLinear);

/// A function of each element between two linear layers.
enum class Activation {
  relu,  ///< max(0, x)
  gelu,  ///< x Phi(x), with Phi of the normal distribution (D. Hendrycks, K. Gimpel 2016); not the tanh form
};

/// The shape of a ParallelMLP. The same on all ranks.
struct ParallelMLPOptions {
  std::int64_t width = 0;   ///< features of inputs and outputs
  std::int64_t hidden = 0;  ///< features in between, which are divided; as many as ranks or more
  Activation activation = Activation::gelu;  ///< applied to the hidden features
  bool bias = true;                          ///< whether both layers have a bias
  bool sequence = false;                     ///< inputs and outputs are slices of the sequence
  at::Generator generator = {};              ///< draws the initial values: see TensorParallelModule
};

/// The two linear layers of a transformer, divided among the ranks: a ColumnParallelLinear, an activation of
/// each element, a RowParallelLinear. From M. Shoeybi et al. 2019, section 3, figure 3a: forward sends what
/// one sum of the outputs takes, and so does backward.
class ParallelMLPImpl : public torch::nn::Module {
 public:
  /// Collective over `group`. Throws InvalidArgumentError, MismatchError: see TensorParallelModule.
  ParallelMLPImpl(const ParallelMLPOptions& options, const Communicator& group);

  /// `x` [..., width], replicated (with `sequence` a slice); returns the same shape. Collective.
  /// `whole_sequence`: see TensorParallelModule. Throws InvalidArgumentError for another last dimension.
  at::Tensor forward(const at::Tensor& x, std::int64_t whole_sequence = 0);

  ParallelMLPOptions options;  ///< as given to the constructor
  ColumnParallelLinear up;     ///< from `width` to this rank's hidden features
  RowParallelLinear down;      ///< from this rank's hidden features to `width`

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(std::int64_t{0})})  // as a layer of a Sequential
};
TORCH_MODULE(ParallelMLP);

/// The shape of a ParallelAttention. The same on all ranks.
struct ParallelAttentionOptions {
  std::int64_t width = 0;  ///< features of inputs and outputs; a multiple of `heads`
  std::int64_t heads = 0;  ///< heads of all ranks together; as many as ranks or more
  bool causal = false;     ///< each place attends to itself and to the places before it only
  bool bias = true;        ///< whether queries, keys, values and outputs have a bias
  double dropout =
      0;  ///< probability, from 0 to below 1, for attention's weights in training: split_dropout()
  bool sequence = false;         ///< inputs and outputs are slices of the sequence
  at::Generator generator = {};  ///< draws the initial values and dropout: see TensorParallelModule
};

/// Multi-head self-attention whose heads are divided among the ranks. The function (A. Vaswani et al.:
/// "Attention Is All You Need", NeurIPS 2017, section 3.2.2) is divided by heads (M. Shoeybi et al. 2019,
/// section 3, figure 3b): each rank has the queries, keys and values of some heads, and the columns of the
/// output's weight that read them. Forward sends what one RowParallelLinear does, backward what one
/// ColumnParallelLinear does.
class ParallelAttentionImpl : public ParallelLayer {
 public:
  /// Collective over `group`. Throws InvalidArgumentError, MismatchError: see TensorParallelModule.
  ParallelAttentionImpl(const ParallelAttentionOptions& options, Communicator group);

  /// `x` [samples, time, width], replicated (with `sequence` a slice); returns the same shape. Collective.
  /// `whole_sequence`: see TensorParallelModule. Throws InvalidArgumentError for another shape.
  at::Tensor forward(const at::Tensor& x, std::int64_t whole_sequence = 0);

  ParallelAttentionOptions options;  ///< as given to the constructor
  Slice heads;                       ///< the heads that this rank computes
  at::Tensor in_weight;              ///< [3, features of this rank's heads, width]: of queries, keys, values
  at::Tensor in_bias;                ///< [3, features of this rank's heads]; undefined without bias
  RowParallelLinear out;             ///< from the heads to the outputs

 private:
  Slice features() const;
  at::Tensor drop(const at::Tensor& weights) const;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(std::int64_t{0})})  // as a layer of a Sequential
};
TORCH_MODULE(ParallelAttention);

/// The shape of a ParallelLayerNorm. The same on all ranks.
struct ParallelLayerNormOptions {
  std::int64_t features = 0;  ///< length of the last dimension, over which each place is normalized
  double eps = 1e-5;          ///< added to the variance before its root; 0 or more, by default as in libtorch
  bool sequence = false;      ///< inputs are slices of the sequence
};

/// torch::nn::LayerNorm over the last dimension, with replicated weight and bias. With `sequence` each rank
/// normalizes its slice of the sequence (V. Korthikanti et al.: "Reducing Activation Recomputation in Large
/// Transformer Models", 2022, section 4.2.2), and backward sums the gradients of weight and bias over the
/// ranks, by one all_reduce of 2 * features elements.
class ParallelLayerNormImpl : public ParallelLayer {
 public:
  /// Collective over `group`. Throws InvalidArgumentError, MismatchError: see TensorParallelModule.
  ParallelLayerNormImpl(const ParallelLayerNormOptions& options, Communicator group);

  /// `x` [..., features]; returns the same shape. Sends nothing; with `sequence` backward is collective.
  /// Throws InvalidArgumentError for another last dimension.
  at::Tensor forward(const at::Tensor& x);

  ParallelLayerNormOptions options;  ///< as given to the constructor
  at::Tensor weight;                 ///< factors, [features], the same on all ranks; at first ones
  at::Tensor bias;                   ///< terms, [features], the same on all ranks; at first zeros
};
TORCH_MODULE(ParallelLayerNorm);

/// The shape of a ParallelTransformerLayer. The same on all ranks.
struct ParallelTransformerLayerOptions {
  std::int64_t width = 0;   ///< features of inputs and outputs; a multiple of `heads`
  std::int64_t heads = 0;   ///< attention heads of all ranks together; as many as ranks or more
  std::int64_t hidden = 0;  ///< hidden features of the MLP, as many as ranks or more; 0: 4 * width
  bool causal = false;      ///< each place attends to itself and to the places before it only
  Activation activation = Activation::gelu;  ///< of the MLP's hidden features
  double dropout = 0;  ///< probability, from 0 to below 1, for what is added to the residual in training
  double attention_dropout = 0;  ///< probability, from 0 to below 1, for attention's weights in training
  bool sequence = false;         ///< inputs and outputs are slices of the sequence
  at::Generator generator = {};  ///< draws the initial values and dropout: see TensorParallelModule
};

/// A layer of a transformer, divided among the ranks. It is x + attention(norm(x)), then the same with an MLP
/// (R. Xiong et al.: "On Layer Normalization in the
/// Transformer Architecture", ICML 2020), by a ParallelAttention and a ParallelMLP.
///
/// For outputs of B bytes and N ranks, rings send 4 (N - 1) / N B in forward and as much in backward: two
/// all_reduces each, or with `sequence` two pairs of all_gather and reduce_scatter. With `sequence` (V.
/// Korthikanti et al. 2022, section 4.2.2) norms, dropout and residuals work on slices of the sequence, so
/// that each rank keeps 1/N of their activations; norms and biases send 6 * width elements more in backward.
///
///     kolo::ParallelTransformerLayer layer(
///         kolo::ParallelTransformerLayerOptions{.width = 512, .heads = 8, .causal = true}, grid.tensor());
///     x = layer(x);                                   // [samples, time, 512]
class ParallelTransformerLayerImpl : public torch::nn::Module {
 public:
  /// Collective over `group`. Throws InvalidArgumentError, MismatchError: see TensorParallelModule.
  ParallelTransformerLayerImpl(const ParallelTransformerLayerOptions& options, const Communicator& group);

  /// `x` [samples, time, width], replicated (with `sequence` a slice); returns the same shape. Collective.
  /// `whole_sequence`: see TensorParallelModule. Throws InvalidArgumentError for another shape.
  at::Tensor forward(const at::Tensor& x, std::int64_t whole_sequence = 0);

  /// As given to the constructor, with `hidden` filled in; a change has no effect on the parameters.
  ParallelTransformerLayerOptions options;
  ParallelLayerNorm attention_norm;  ///< of what attention reads
  ParallelAttention attention;       ///< the first addition to the residual
  ParallelLayerNorm mlp_norm;        ///< of what the MLP reads
  ParallelMLP mlp;                   ///< the second addition to the residual

 private:
  at::Tensor drop(const at::Tensor& x, std::int64_t whole_sequence) const;

  Communicator group_;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(std::int64_t{0})})  // as a layer of a Sequential
};
TORCH_MODULE(ParallelTransformerLayer);

/// The shape of a VocabularyParallelEmbedding. The same on all ranks.
struct VocabularyParallelEmbeddingOptions {
  std::int64_t vocabulary = 0;  ///< rows of all ranks together; as many as ranks or more
  std::int64_t features = 0;    ///< length of a row; 1 or more
  bool sequence = false;        ///< outputs are slices of the sequence
  /// Draws the initial values, of the normal distribution N(0, 1); undefined: libtorch's default generator.
  at::Generator generator = {};
};

/// A table of embeddings whose rows are divided among the ranks. Each rank looks up what is in its rows, and
/// a sum over the ranks fills in all other rows (M. Shoeybi et al. 2019, section 3). Backward sends nothing
/// (with `sequence` an all_gather). Slices need not be equal.
class VocabularyParallelEmbeddingImpl : public ParallelLayer {
 public:
  /// Collective over `group`. Throws InvalidArgumentError, MismatchError: see TensorParallelModule.
  VocabularyParallelEmbeddingImpl(const VocabularyParallelEmbeddingOptions& options, Communicator group);

  /// `indices` int64 [...], replicated; returns [..., features], replicated (with `sequence` a slice along
  /// dimension 1). Throws InvalidArgumentError where an index is not in the vocabulary, and for
  /// indices of another type.
  at::Tensor forward(const at::Tensor& indices);

  VocabularyParallelEmbeddingOptions options;  ///< as given to the constructor
  Slice rows;                                  ///< the rows that this rank holds
  at::Tensor weight;                           ///< [this rank's rows, features]
};
TORCH_MODULE(VocabularyParallelEmbedding);

}  // namespace kolo
