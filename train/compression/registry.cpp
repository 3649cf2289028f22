// Gradient hooks: what they have in common, and their names.
#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "compression/options.hpp"
#include "kolo/error.hpp"

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

/// With the options that the parameters name.
template <typename Options>
std::shared_ptr<GradientHook> make(Parameters& parameters,
                                   std::shared_ptr<GradientHook> (*make_hook)(const Options&),
                                   Options options = {}) {
  train::visit_options(options, [&](const char* name, auto& value) { parameters.take(name, value); });
  return make_hook(options);
}

template <GradientFormat kFormat>
std::shared_ptr<GradientHook> compressed(Parameters& parameters) {
  return make(parameters, make_compressed_hook,
              {.format = kFormat, .feedback = kFormat == GradientFormat::one_bit});
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
    {"top_k", [](Parameters& parameters) { return make(parameters, make_top_k_hook); }},
    {"power_sgd", [](Parameters& parameters) { return make(parameters, make_power_sgd_hook); }},
    {"adasum", [](Parameters&) { return make_adasum_hook(); }},
    {"post_local_sgd", [](Parameters& parameters) { return make(parameters, make_post_local_sgd_hook); }},
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
