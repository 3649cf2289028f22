// Gradient hooks: what they have in common, and their names.
#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "compression/compressed_average.hpp"
#include "compression/top_k.hpp"
#include "kolo/error.hpp"
#include "kolo/train/hooks.hpp"

namespace kolo {
namespace {

/// The parameters of a specification, taken out one by one.
class Parameters {
 public:
  Parameters(std::string_view name, std::string_view text) : name_(name) {
    while (!text.empty()) {
      const std::string_view item = text.substr(0, text.find(':'));
      text.remove_prefix(std::min(text.size(), item.size() + 1));
      const std::size_t equals = item.find('=');
      if (equals == std::string_view::npos) fail("'" + std::string(item) + "' is not name=value");
      const std::string parameter(item.substr(0, equals));
      if (!values_.emplace(parameter, item.substr(equals + 1)).second) fail(parameter + " is given twice");
    }
  }

  template <typename T>
  void take(const char* parameter, T& value) {
    known_ += std::string(known_.empty() ? "" : ", ") + parameter;
    const auto found = values_.find(parameter);
    if (found == values_.end()) return;
    const std::string text = std::exchange(found->second, {});
    values_.erase(found);
    const char* const end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, value);
    if (result.ec != std::errc() || result.ptr != end)
      fail(std::string(parameter) + "=" + text + " is no number of its kind");
  }
  void take(const char* parameter, bool& value) {
    int number = value ? 1 : 0;
    take(parameter, number);
    if (number != 0 && number != 1) fail(std::string(parameter) + " is neither 0 nor 1");
    value = number == 1;
  }
  void require_none_left() const {
    if (!values_.empty())
      fail("there is no parameter '" + values_.begin()->first + "', " +
           (known_.empty() ? "none at all" : "only " + known_));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InvalidArgumentError("gradient hook " + name_ + ": " + what, {});
  }

  std::string name_;
  std::map<std::string, std::string> values_;
  std::string known_;
};

template <GradientFormat kFormat>
std::shared_ptr<GradientHook> compressed(Parameters& parameters) {
  CompressedOptions options{.format = kFormat, .feedback = kFormat == GradientFormat::one_bit};
  parameters.take("feedback", options.feedback);
  parameters.take("start_after_steps", options.start_after_steps);
  return make_compressed_hook(options);
}

std::shared_ptr<GradientHook> top_k(Parameters& parameters) {
  TopKOptions options;
  parameters.take("ratio", options.ratio);
  parameters.take("momentum", options.momentum);
  parameters.take("warm_up_steps", options.warm_up_steps);
  return make_top_k_hook(options);
}

std::shared_ptr<GradientHook> power_sgd(Parameters& parameters) {
  PowerSgdOptions options;
  parameters.take("rank", options.rank);
  parameters.take("start_after_steps", options.start_after_steps);
  parameters.take("seed", options.seed);
  parameters.take("feedback", options.feedback);
  parameters.take("warm_start", options.warm_start);
  return make_power_sgd_hook(options);
}

std::shared_ptr<GradientHook> adasum(Parameters&) {
  return make_adasum_hook();
}

std::shared_ptr<GradientHook> post_local_sgd(Parameters& parameters) {
  PostLocalSgdOptions options;
  parameters.take("start_after_steps", options.start_after_steps);
  parameters.take("ranks_per_group", options.ranks_per_group);
  return make_post_local_sgd_hook(options);
}

struct Entry {
  const char* name;
  std::shared_ptr<GradientHook> (*make)(Parameters& parameters);
};
constexpr Entry kHooks[] = {
    {"float16", compressed<GradientFormat::float16>},
    {"bfloat16", compressed<GradientFormat::bfloat16>},
    {"int8", compressed<GradientFormat::int8>},
    {"float8", compressed<GradientFormat::float8>},
    {"one_bit", compressed<GradientFormat::one_bit>},
    {"top_k", top_k},
    {"power_sgd", power_sgd},
    {"adasum", adasum},
    {"post_local_sgd", post_local_sgd},
};

}  // namespace

GradientHook::~GradientHook() = default;

void GradientHook::scatter(const GradientBucket&, std::span<const std::uint64_t>, Communicator&) {
  throw InvalidArgumentError("the hook " + describe() + " cannot average gradients in shards", {});
}

void GradientHook::set_state(const HookState& state) {
  if (state.empty()) return;
  throw InvalidArgumentError(
      describe() + " keeps nothing, and the state holds '" + state.begin()->first + "'", {});
}

std::shared_ptr<GradientHook> make_compressed_hook(const CompressedOptions& options) {
  return std::make_shared<train::CompressedAverage>(train::make_codec(options.format), options.feedback,
                                                    options.start_after_steps);
}

std::shared_ptr<GradientHook> make_top_k_hook(const TopKOptions& options) {
  return std::make_shared<train::TopK>(options);
}

std::shared_ptr<GradientHook> make_gradient_hook(std::string_view specification) {
  const std::string_view name = specification.substr(0, specification.find(':'));
  std::string known;
  for (const Entry& entry : kHooks) {
    if (name == entry.name) {
      Parameters parameters(name, specification.substr(std::min(specification.size(), name.size() + 1)));
      const auto hook = entry.make(parameters);
      parameters.require_none_left();
      return hook;
    }
    known += std::string(known.empty() ? "" : ", ") + entry.name;
  }
  throw InvalidArgumentError("there is no gradient hook '" + std::string(name) + "', only " + known, {});
}

std::vector<std::string> gradient_hook_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kHooks) names.emplace_back(entry.name);
  return names;
}

}  // namespace kolo
