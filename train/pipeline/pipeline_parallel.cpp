#include "kolo/train/pipeline_parallel.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/slice.hpp"
#include "kolo/train/tensor.hpp"
#include "pipeline/pipeline_step.hpp"
#include "placement/placement.hpp"
#include "ranks/agreement.hpp"
#include "ranks/holders.hpp"
#include "ranks/model.hpp"

namespace kolo {
namespace {

constexpr const char* kCall = "PipelineParallel";

train::PipelineShape shape_of(const PipelineParallelOptions& options, int ranks) {
  return {options.schedule, ranks, options.micro_batches, options.chunks};
}

/// A line for each thing that ranks must agree on.
std::string text_of(const PipelineParallelOptions& options) {
  std::ostringstream text;
  text << "the schedule " << pipeline_schedule_names().at(static_cast<std::size_t>(options.schedule)) << '\n'
       << options.micro_batches << " micro-batches\n"
       << options.chunks << " chunks\n"
       << (options.recompute ? "recompute" : "no recompute") << '\n'
       << (options.data.valid() ? "a data communicator" : "no data communicator") << '\n'
       << (options.holders.valid() ? "holders" : "no holders") << '\n';
  for (const PipelineTie& tie : options.tie) text << "the tie '" << tie.first << "', '" << tie.last << "'\n";
  return text.str();
}

std::string text_of(const PipelineModel& model) {
  if (model.layers.is_empty()) return "no layers\n";
  std::ostringstream text;
  text << model.layers->size() << " layers\nborders";
  for (const std::int64_t border : model.borders) text << ' ' << border;
  return text.str() + '\n' + train::text_of_layout(train::once(model.layers->named_parameters()));
}

int stage_of_layer(const std::vector<std::int64_t>& borders, std::int64_t layer) {
  return static_cast<int>(std::ranges::upper_bound(borders, layer) - borders.begin());
}

/// As many layers in each of `stages` parts, or one more in the first ones.
std::vector<std::int64_t> even_borders(std::int64_t layers, int stages) {
  std::vector<std::int64_t> borders;
  for (int stage = 1; stage < stages; ++stage) borders.push_back(slice_of(layers, stage, stages).begin);
  return borders;
}

void require_borders(const std::vector<std::int64_t>& borders, std::int64_t layers, int stages) {
  const auto refuse = [](const std::string& what) { throw InvalidArgumentError(what, {}); };
  if (layers < stages) {
    refuse(std::to_string(stages) + " stages are more than the " + std::to_string(layers) +
           " layers of the model");
  }
  if (borders.size() + 1 != static_cast<std::size_t>(stages))
    refuse(std::to_string(borders.size()) + " borders do not make " + std::to_string(stages) + " stages");
  std::int64_t before = 0;
  for (const std::int64_t border : borders) {
    if (border <= before || border >= layers) {
      refuse("a border of " + std::to_string(border) + " after " + std::to_string(before) +
             " leaves a stage of the " + std::to_string(layers) + " layers empty");
    }
    before = border;
  }
}

/// The stages of this rank. The layers keep their names.
std::vector<PipelineStage> stages_of(const torch::nn::Sequential& layers,
                                     const std::vector<std::int64_t>& borders,
                                     const train::PipelineShape& shape, int rank) {
  const auto names = layers->named_children();
  std::vector<torch::nn::Sequential> parts(static_cast<std::size_t>(shape.chunks));
  std::int64_t index = 0;
  for (const torch::nn::AnyModule& layer : *layers) {
    const int stage = stage_of_layer(borders, index);
    if (stage % shape.ranks == rank) {
      parts[static_cast<std::size_t>(stage / shape.ranks)]->push_back(
          names[static_cast<std::size_t>(index)].key(), layer);
    }
    ++index;
  }
  return {parts.begin(), parts.end()};
}

/// Throws where several stages use a parameter that no tie names.
void require_apart(const torch::nn::Sequential& layers, const std::vector<std::int64_t>& borders,
                   const std::vector<PipelineTie>& ties) {
  std::map<const c10::TensorImpl*, std::pair<int, std::string>> first_use;
  std::int64_t index = 0;
  for (const auto& child : layers->named_children()) {
    const int stage = stage_of_layer(borders, index++);
    for (const auto& parameter : child.value()->named_parameters()) {
      const std::string name = child.key() + '.' + parameter.key();
      const auto [found, is_new] =
          first_use.emplace(parameter.value().unsafeGetTensorImpl(), std::pair(stage, name));
      const auto& [other_stage, other] = found->second;
      if (is_new || other_stage == stage) continue;
      const auto names_it = [&, &other = other](const PipelineTie& tie) {
        return tie.first == other && tie.last == name;
      };
      if (std::ranges::none_of(ties, names_it)) {
        throw InvalidArgumentError("'" + other + "' and '" + name + "' are one parameter, in stages " +
                                       std::to_string(other_stage) + " and " + std::to_string(stage) +
                                       ": name it in `tie`, which serves the first and the last stage",
                                   {});
      }
    }
  }
}

/// Finds one end's parameter of each tie.
void find_tied(const PipelineStage& stage, const std::vector<PipelineTie>& ties, bool is_first,
               std::vector<train::TiedPair>& pairs) {
  const auto parameters = stage.module->named_parameters();
  for (std::size_t i = 0; i < ties.size(); ++i) {
    const std::string& name = is_first ? ties[i].first : ties[i].last;
    const at::Tensor* const found = parameters.find(name);
    const auto refuse = [&](const std::string& what) {
      throw InvalidArgumentError("`tie` names '" + name + "', " + what, {});
    };
    if (found == nullptr)
      refuse(std::string("which is no parameter of the ") + (is_first ? "first" : "last") + " stage");
    if (const auto problem = problem_of([&] { dtype_of_tensor(found->scalar_type()); }); !problem.empty())
      refuse("and " + problem);
    if (train::shard_of(*found)) {
      refuse(
          "which is in shards of a ShardedDataParallel: tie layers of one stage, which a module may share");
    }
    (is_first ? pairs[i].first : pairs[i].last) = *found;
  }
}

/// The types and shapes of one end's parameters.
std::string text_of(const std::vector<train::TiedPair>& pairs, bool is_first) {
  std::vector<NamedTensor> tensors;
  for (const auto& pair : pairs) tensors.push_back({"tied parameter", is_first ? pair.first : pair.last});
  return train::text_of_layout(tensors);
}

/// Collective.
void tie(Communicator& communicator, const train::PipelineShape& shape,
         const std::vector<PipelineStage>& stages, const std::vector<PipelineTie>& ties,
         train::StageGradients& gradients) {
  if (ties.empty()) return;
  const bool is_first = communicator.rank() == 0, is_last = communicator.rank() + 1 == shape.ranks;
  std::vector<train::TiedPair> pairs(ties.size());
  agree(communicator, kCall, "", [&] {
    if (is_first) find_tied(stages.front(), ties, true, pairs);
    if (is_last) find_tied(stages.back(), ties, false, pairs);
  });
  const std::string firsts = train::text_from(communicator, is_first ? text_of(pairs, true) : "", 0);
  agree(communicator, kCall, "", [&] {
    const std::string lasts = is_last ? text_of(pairs, false) : firsts;
    const std::string problem = train::difference(lasts, firsts, communicator.rank(), 0);
    if (!problem.empty()) throw InvalidArgumentError(problem, {});
  });
  Communicator ends;
  if (shape.ranks > 1) ends = communicator.subgroup(std::vector<int>{0, shape.ranks - 1});
  gradients.tie(std::move(pairs), ends);
}

/// Collective: what this rank's stages have, each tensor once. Where two stages have one name, all names
/// begin with the number of their stage. A tied weight of the last stage has the name of the first one.
std::vector<PlacedParameter> placed_in(Communicator& communicator, const std::vector<PipelineStage>& stages,
                                       const std::vector<train::TiedPair>& tied,
                                       const std::vector<PipelineTie>& ties) {
  std::vector<PlacedParameter> placed;
  std::vector<std::size_t> numbers;  // of the stage of each
  std::string mine;
  for (std::size_t chunk = 0; chunk < stages.size(); ++chunk) {
    for (PlacedParameter& one : placed_parameters(*stages[chunk].module)) {
      const auto is_same = [&](const PlacedParameter& other) { return other.tensor.is_same(one.tensor); };
      if (std::ranges::any_of(placed, is_same)) continue;
      mine += one.name + '\n';
      numbers.push_back(chunk * static_cast<std::size_t>(communicator.size()) +
                        static_cast<std::size_t>(communicator.rank()));
      placed.push_back(std::move(one));
    }
  }
  std::set<std::string> names;
  bool are_different = true;
  for (const std::string& text : train::texts_of_all(communicator, mine)) {
    std::istringstream lines(text);
    for (std::string name; std::getline(lines, name);)
      are_different = names.insert(name).second && are_different;
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (!are_different) placed[i].name = std::to_string(numbers[i]) + '.' + placed[i].name;
    for (std::size_t k = 0; k < ties.size(); ++k) {
      if (placed[i].tensor.is_same(tied[k].last))
        placed[i].name = (are_different ? "" : "0.") + ties[k].first;
    }
  }
  return placed;
}

/// Collective over both communicators: ranks of one pipeline learn of what the replicas of any stage find.
std::unique_ptr<train::StageGradients> gradients_of(Communicator& communicator,
                                                    const std::vector<PipelineStage>& stages,
                                                    const train::PipelineShape& shape,
                                                    const PipelineParallelOptions& options) {
  std::unique_ptr<train::StageGradients> result;
  const Communicator own = options.data.valid() ? Communicator(options.data).split(0) : Communicator();
  agree(communicator, kCall, "", [&] { result = std::make_unique<train::StageGradients>(stages, own); });
  tie(communicator, shape, stages, options.tie, *result);
  return result;
}

}  // namespace

double PipelineStatistics::bubble() const noexcept {
  if (total.count() <= 0) return 0;
  return 1 - std::chrono::duration<double>(computing) / std::chrono::duration<double>(total);
}

struct PipelineParallel::State {
  State(std::vector<PipelineStage> stages, Loss loss, Communicator own_,
        const PipelineParallelOptions& options)
      : own(std::move(own_)),
        gradients(gradients_of(own, stages, shape_of(options, own.size()), options)),
        step(std::move(stages), std::move(loss), own, shape_of(options, own.size()), options.recompute,
             *gradients),
        placement(placed_in(own, step.stages(), gradients->tied(), options.tie), options.holders, own) {
    const auto part = train::part_of_group(own, "a PipelineParallel", "pass its placed()", false);
    for (const PipelineStage& stage : step.stages()) {
      for (const NamedTensor& named : train::once(stage.module->named_parameters())) {
        const auto is_same = [&](const at::Tensor& other) { return other.is_same(named.tensor); };
        if (std::ranges::any_of(parameters, is_same)) continue;
        parameters.push_back(named.tensor);
        if (part) held.add(named.tensor, *part);
      }
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Communicator own;  ///< so calls on the caller's cannot come between those of a step
  std::unique_ptr<train::StageGradients> gradients;
  train::PipelineStep step;
  train::Placement placement;
  std::vector<at::Tensor> parameters;
  train::Held held;  ///< the layers may be those of a whole model
};

namespace {

/// Collective: what both constructors check once ranks agree.
void require_usable(Communicator& own, const std::vector<PipelineStage>& stages,
                    const PipelineParallel::Loss& loss, const PipelineParallelOptions& options) {
  const auto refuse = [](const std::string& what) { throw InvalidArgumentError(what, {}); };
  agree(own, kCall, "", [&] {
    if (stages.size() != static_cast<std::size_t>(options.chunks)) {
      refuse("there are " + std::to_string(stages.size()) + " stages where each rank has " +
             std::to_string(options.chunks));
    }
    for (const PipelineStage& stage : stages) {
      if (!stage.module) refuse("a stage has no module");
      if (!stage.forward) refuse("a stage has no forward()");
    }
    if (own.rank() + 1 == own.size() && !loss) refuse("the last stage has no loss");
  });
}

}  // namespace

PipelineParallel::PipelineParallel(std::vector<PipelineStage> stages, Loss loss, Communicator communicator,
                                   PipelineParallelOptions options)
    : ParallelModel(std::move(communicator)) {
  Communicator own = this->communicator().split(0);
  agree(own, kCall, text_of(options), [&] { train::require_shape(shape_of(options, own.size())); });
  require_usable(own, stages, loss, options);
  state_ = std::make_unique<State>(std::move(stages), std::move(loss), std::move(own), options);
}

PipelineParallel::PipelineParallel(PipelineModel model, Loss loss, Communicator communicator,
                                   PipelineParallelOptions options)
    : ParallelModel(std::move(communicator)) {
  Communicator own = this->communicator().split(0);
  const std::string lines = text_of(options) + text_of(model);
  const train::PipelineShape shape = shape_of(options, own.size());
  agree(own, kCall, lines, [&] {
    train::require_shape(shape);
    if (model.layers.is_empty()) throw InvalidArgumentError("there is no model", {});
    const auto layers = static_cast<std::int64_t>(model.layers->size());
    if (model.borders.empty()) model.borders = even_borders(layers, shape.stages());
    require_borders(model.borders, layers, shape.stages());
    require_apart(model.layers, model.borders, options.tie);
  });
  std::vector<PipelineStage> stages = stages_of(model.layers, model.borders, shape, own.rank());
  require_usable(own, stages, loss, options);
  model.layers = torch::nn::Sequential(nullptr);
  state_ = std::make_unique<State>(std::move(stages), std::move(loss), std::move(own), options);
}

PipelineParallel::~PipelineParallel() = default;

std::optional<double> PipelineParallel::step(const at::Tensor& input, const at::Tensor& target) {
  return state_->step.step(input, target);
}

double PipelineParallel::mean_loss() {
  return state_->step.mean_loss();
}

at::Tensor PipelineParallel::forward(const at::Tensor& input) {
  return state_->step.forward(input);
}

std::vector<at::Tensor> PipelineParallel::parameters() const {
  return state_->parameters;
}

const PlacedModel& PipelineParallel::placed() const {
  return state_->placement.get();
}

const std::vector<PipelineStage>& PipelineParallel::stages() const noexcept {
  return state_->step.stages();
}

bool PipelineParallel::is_first() const noexcept {
  return state_->step.is_first();
}

bool PipelineParallel::is_last() const noexcept {
  return state_->step.is_last();
}

const PipelineStatistics& PipelineParallel::last_step() const noexcept {
  return state_->step.last_step();
}

const PipelineStatistics& PipelineParallel::statistics() const noexcept {
  return state_->step.total();
}

void PipelineParallel::set_local(bool is_local) {
  if (is_local)
    throw InvalidArgumentError("PipelineParallel: no_sync() has no use, as step() has all micro-batches", {});
}

void PipelineParallel::set_loss_scale(float scale) {
  require_scale(scale);
}

const CommunicationStatistics& PipelineParallel::total() const noexcept {
  return state_->gradients->total();
}

}  // namespace kolo
